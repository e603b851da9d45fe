/**
 * Scenario `profile`: where a serving process spends its processor time under the load of `receive`, by function, native and JavaScript.
 *
 * perf samples the main thread and the threads of one process. With --perf-basic-prof-only-functions V8 writes the addresses of its
 * functions to /tmp/perf-PID.map, where perf finds them; builtins and native code have symbols of their own. (--perf-basic-prof also writes
 * a log, to standard output where the user of the processes cannot create its file.) JavaScript functions show the tier that ran:
 * `*` optimised, `^` baseline, `~` interpreted. The samples are kept for viewers of flame graphs.
 */
import { exec, execFile, spawn, spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CommandError } from '../server/base/command/io.ts';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import { openBenchDatabase } from './lib/database.ts';
import type { BenchContext, BenchOutcome, Scenario, Table } from './lib/outcome.ts';
import { resultsDirectory } from './lib/paths.ts';
import { formatNumber } from './lib/stats.ts';
import { startWeir } from './lib/weir.ts';
import { requireWrk, runWrk, writeScript } from './lib/wrk.ts';

const BODY_BYTES = 1024;
const CONNECTIONS = 256;
/** Long enough for V8 to optimise the request path. */
const WARM_UP_SECONDS = 6;
const SAMPLES_A_SECOND = 4_000;
/** Functions in a table. */
const FUNCTIONS = 50;
const SYMBOL_CHARACTERS = 110;
const SAMPLES = join(resultsDirectory, 'profile.perf');

export const profile: Scenario = {
  name: 'profile',
  summary: 'share of processor time of a serving process by function, native and JavaScript (needs perf)',
  defaults: { rounds: 1, seconds: 8 },
  run,
};

async function run(context: BenchContext): Promise<BenchOutcome> {
  requireWrk();
  requirePerf();
  const bench = await openBenchDatabase(context);
  const script = join(bench.directory, 'request.lua');
  writeScript(script, signedRequest(bench.secret, benchBody(BODY_BYTES)));
  const weir = await startWeir({ ...bench, processes: 1, nodeOptions: '--perf-basic-prof-only-functions' });
  for (const each of [weir.pid, ...weir.processes]) context.undo(() => rm(`/tmp/perf-${each}.map`, { force: true }));
  context.undo(() => weir.stop());
  const pid = weir.processes[0]!;
  const load = { url: weir.url, script, connections: CONNECTIONS };
  await runWrk({ ...load, seconds: WARM_UP_SECONDS }, context.signal);

  const data = join(bench.directory, 'perf.data');
  const record = ['record', '-e', 'cpu-clock', '-F', String(SAMPLES_A_SECOND), '-g', '-p', String(pid), '-o', data];
  const perf = spawn('perf', [...record, '--', 'sleep', String(context.seconds)], { stdio: 'ignore' });
  const ended = new Promise((resolve) => perf.once('exit', resolve));
  const { requestsPerSecond } = await runWrk({ ...load, seconds: context.seconds }, context.signal);
  await ended;

  await promisify(exec)(`perf script -i ${data} > '${SAMPLES}'`);
  const libraries = await report(data, ['--no-children', '--sort', 'dso']);
  return {
    tables: [
      tableOf('library', libraries),
      tableOf('function itself', await report(data, ['--no-children', '--sort', 'symbol'])),
      tableOf('function with what it calls', await report(data, ['--children', '--sort', 'symbol'])),
    ],
    measures: libraries.map(([share, name]) => ({ name, unit: '%', values: [share] })),
    notes: [
      `${formatNumber(requestsPerSecond)} requests/s while perf sampled all threads of one process.`,
      `Samples of perf script, which speedscope.app and profiler.firefox.com draw as a flame graph: ${SAMPLES}`,
    ],
    faults: libraries.length === 0 ? ['perf took no sample'] : [],
  };
}

/** Throws CommandError when perf is not installed or may not sample. */
function requirePerf(): void {
  const { error, status, stderr } = spawnSync('perf', ['record', '-e', 'cpu-clock', '-o', '/dev/null', '--', 'true']);
  if (error !== undefined)
    throw new CommandError(`perf cannot be run (${error.message}); get it: apt-get install linux-perf`);
  if (status !== 0)
    throw new CommandError(
      `perf may not sample (${String(stderr).trim().split('\n')[0]}); run as root, or set kernel.perf_event_paranoid to 1`,
    );
}

type Row = [share: number, name: string];

/** Rows of `perf report`, the largest share first. */
async function report(data: string, options: readonly string[]): Promise<Row[]> {
  const args = ['report', '-i', data, '--stdio', '-g', 'none', '-t', '|', ...options];
  const { stdout } = await promisify(execFile)('perf', args, { maxBuffer: 64 * 1024 * 1024 });
  return stdout
    .split('\n')
    .filter((line) => /^ *\d/.test(line))
    .map((line) => {
      const [share, ...fields] = line.split('|').map((field) => field.trim());
      // After the share come, as perf's version and options have it, a second share, the name, and columns without values.
      const name = fields.find((field) => /[A-Za-z]/.test(field)) ?? '';
      return [Number.parseFloat(share!), name.slice(0, SYMBOL_CHARACTERS)];
    });
}

function tableOf(title: string, rows: readonly Row[]): Table {
  return { header: ['%', title], rows: rows.slice(0, FUNCTIONS).map(([share, name]) => [share.toFixed(2), name]) };
}
