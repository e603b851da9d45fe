/**
 * Scenario `profile`: where a serving process spends its processor time under the load of `receive`, by function, native and JavaScript.
 *
 * perf samples the main thread and the threads of one process. With --perf-basic-prof V8 writes the addresses of its functions to
 * /tmp/perf-PID.map, where perf finds them; builtins and native code have symbols of their own. JavaScript functions show the tier that
 * ran: `*` optimised, `^` baseline, `~` interpreted. The same samples are drawn as a flame graph, bench/results/profile.svg.
 */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CommandError } from '../server/base/command/io.ts';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import { openBenchDatabase } from './lib/database.ts';
import type { BenchContext, Outcome, Scenario, Table } from './lib/outcome.ts';
import { projectRoot, resultsDirectory } from './lib/paths.ts';
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

export const profile: Scenario = {
  name: 'profile',
  summary: 'share of processor time of a serving process by function, native and JavaScript (needs perf)',
  defaults: { rounds: 1, seconds: 8 },
  run,
};

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  requirePerf();
  const bench = await openBenchDatabase(context);
  const secret = randomBytes(24).toString('base64url');
  const script = join(bench.directory, 'request.lua');
  writeScript(script, signedRequest(secret, benchBody(BODY_BYTES)));
  const weir = await startWeir({ ...bench, processes: 1, secret, nodeOptions: '--perf-basic-prof' });
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

  const title = `Weir, one process, ${formatNumber(requestsPerSecond)} requests/s of 1 KiB over ${CONNECTIONS} connections: all threads`;
  await drawSamples(data, title);
  const libraries = await report(data, ['--no-children', '--sort', 'dso']);
  return {
    tables: [
      tableOf('library', libraries),
      tableOf('function itself', await report(data, ['--no-children', '--sort', 'symbol'])),
      tableOf('function with what it calls', await report(data, ['--children', '--sort', 'symbol'])),
    ],
    measures: libraries.map(([share, name]) => ({ name, unit: '%', values: [share] })),
    ratios: [],
    goals: [],
    notes: [
      `${formatNumber(requestsPerSecond)} requests/s while perf sampled all threads of one process.`,
      `Flame graph: ${FLAME_GRAPH}`,
    ],
    faults: libraries.length === 0 ? ['perf took no sample'] : [],
  };
}

const FLAME_GRAPH = join(resultsDirectory, 'profile.svg');

/** Writes the flame graph of the samples. */
async function drawSamples(data: string, title: string): Promise<void> {
  const script = spawn('perf', ['script', '-i', data, '-F', 'comm,ip,sym'], { stdio: ['ignore', 'pipe', 'ignore'] });
  const root = newFrame('all');
  let rest = '';
  for await (const chunk of script.stdout.setEncoding('utf8')) {
    const text = rest + chunk;
    const end = text.lastIndexOf('\n\n') + 1;
    addPerfScript(root, withoutPaths(text.slice(0, end)));
    rest = text.slice(end);
  }
  addPerfScript(root, withoutPaths(rest));
  await mkdir(resultsDirectory, { recursive: true });
  await writeFile(FLAME_GRAPH, drawFlameGraph(root, title));
}

/** The names of functions with their files below the project, so that graphs of two machines are comparable. */
function withoutPaths(text: string): string {
  return text.replaceAll(`file://${projectRoot}/`, '').replaceAll(`${projectRoot}/`, '');
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

/** A function in the context of its callers. */
interface Frame {
  name: string;
  /** Samples in this function or in what it called. */
  samples: number;
  callees: Map<string, Frame>;
}

export function newFrame(name: string): Frame {
  return { name, samples: 0, callees: new Map() };
}

/** Deeper frames are left out: perf follows a broken stack for hundreds of frames. */
const DEPTH_MAX = 60;

/** Counts one sample. @param stack names of the frames, the outermost first */
export function addSample(root: Frame, stack: readonly string[]): void {
  let frame = root;
  frame.samples++;
  for (const name of stack.slice(0, DEPTH_MAX)) {
    const callee = frame.callees.get(name) ?? newFrame(name);
    frame.callees.set(name, callee);
    callee.samples++;
    frame = callee;
  }
}

/**
 * Adds the samples of `perf script -F comm,ip,sym`: per sample a line with the thread's name, then a line `ADDRESS SYMBOL` for each frame, the
 * innermost first, then an empty line. The thread's name becomes the outermost frame.
 */
export function addPerfScript(root: Frame, text: string): void {
  for (const sample of text.split('\n\n')) {
    const [thread = '', ...frames] = sample.trim().split('\n');
    if (frames.length > 0)
      addSample(root, [thread.trim(), ...frames.map((line) => line.trim().replace(/^[0-9a-f]+ /, '')).reverse()]);
  }
}

const WIDTH = 1_600;
const ROW = 17;
const TOP = 34;
/** Narrower frames are left out. */
const NARROWEST = 1.5;
const CHARACTER = 6.6;
const NAME_CHARACTERS = 120;

/** Draws the frames upwards from the root at the bottom, siblings in alphabetical order. */
export function drawFlameGraph(root: Frame, title: string): string {
  const rects: string[] = [];
  let depthMost = 0;
  const draw = (frame: Frame, x: number, depth: number): void => {
    const width = (frame.samples / root.samples) * WIDTH;
    if (width < NARROWEST) return;
    depthMost = Math.max(depthMost, depth);
    rects.push(rect(frame, { x, width, depth, share: frame.samples / root.samples }));
    let left = x;
    for (const callee of [...frame.callees.values()].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      draw(callee, left, depth + 1);
      left += (callee.samples / root.samples) * WIDTH;
    }
  };
  draw(root, 0, 0);
  const bottom = TOP + depthMost * ROW;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${bottom + ROW + 6}" font-family="monospace" font-size="11">
<title>${escaped(title)}</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="6" y="20" font-size="14">${escaped(title)}</text>
<g transform="translate(0 ${bottom})">
${rects.join('\n')}
</g>
</svg>
`;
}

function rect(
  { name, samples }: Frame,
  { x, width, depth, share }: { x: number; width: number; depth: number; share: number },
): string {
  const shown = name.slice(0, NAME_CHARACTERS);
  const room = Math.floor((width - 4) / CHARACTER);
  const label = room < 3 ? '' : shown.length <= room ? shown : `${shown.slice(0, room - 1)}…`;
  const at = `x="${x.toFixed(1)}" y="${-depth * ROW}"`;
  return (
    `<g><title>${escaped(shown)}: ${(share * 100).toFixed(2)} % (${samples} samples)</title>` +
    `<rect ${at} width="${width.toFixed(1)}" height="${ROW - 1}" fill="${colourOf(name)}"/>` +
    `${label === '' ? '' : `<text x="${(x + 3).toFixed(1)}" y="${12 - depth * ROW}">${escaped(label)}</text>`}</g>`
  );
}

/** JavaScript by its tier (`*` optimised, `^` baseline, `~` interpreted), native code otherwise. */
function colourOf(name: string): string {
  if (/^(JS:)?\*/.test(name)) return '#8fd19e';
  if (/^(JS:)?[~^]/.test(name)) return '#f5d76e';
  if (/^Builtins_/.test(name)) return '#a7c7e7';
  return '#f2b29b';
}

function escaped(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
}
