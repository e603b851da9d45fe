/**
 * `weir bench`: the scaling curve of this machine. One temporary Weir for each number of processes, one after another on one database:
 *
 *     empty the table, checkpoint, `weir start`, warm-up, measured window, wait for the last responses, TERM, count the rows
 */
import { randomBytes } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { availableParallelism, loadavg } from 'node:os';
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CommandError, type CommandIo, printJson, printText } from '../../base/command/io.ts';
import { secretFileNames } from '../../base/settings/gather.ts';
import { settingTable } from '../../base/settings/table.ts';
import { nodeChildren, startArguments, startChild } from '../../operate/load/child.ts';
import {
  benchBody,
  emptyTable,
  freePort,
  isInMemory,
  makeDirectory,
  requestBytes,
  signedRequest,
} from '../../operate/load/environment.ts';
import { type BenchRun, runOf } from '../../operate/load/results.ts';
import { measureWindow, WARM_UP_SECONDS, type Window } from '../../operate/load/window.ts';
import { wholeNumber } from '../command/arguments.ts';
import { type BenchProgress, showBenchProgress } from '../command/progress.ts';
import { untilSignal } from '../command/run-command.ts';
import { type CommandSession, openCommandSession } from '../command/session.ts';
import { openLocal } from '../manage/socket.ts';
import { benchReportOf, type CurveOrder, describeReport, drawReport } from './report.ts';

interface BenchOptions {
  workers: number[];
  seconds: number;
  size: number;
  connections: number;
  senders: number;
  svg?: string;
  json?: true;
}

/** Smallest body size: the JSON body of the load needs this many bytes. */
const BODY_BYTES_MIN = 32;

/**
 * `weir bench`. Exit code 1 when a request was not answered 202, when the number of stored rows differs from that of these answers, or when a
 * signal ended the run early.
 */
export function define(command: Command, io: CommandIo): void {
  const cores = availableParallelism();
  command
    .addOption(
      new Option('--workers <list>', 'process counts to measure, e.g. 1,2,4')
        .argParser(parseWorkers)
        .default(doublings(cores), doublings(cores).join()),
    )
    .option('--seconds <n>', 'length of each measurement', wholeNumber(3_600), 10)
    .option(
      '--size <bytes>',
      'body size of a request',
      wholeNumber(Number(settingTable.WEBHOOK_MAX_PAYLOAD_BYTES.fallback), BODY_BYTES_MIN),
      1024,
    )
    .option('--connections <n>', 'concurrent requests', wholeNumber(10_000), 256)
    .option('--senders <n>', 'sender threads', wholeNumber(64), Math.ceil(cores / 4))
    .option('--svg <file>', 'also draw the curve as an SVG file')
    .option('--json', 'print one JSON document')
    .action((options: BenchOptions) => bench(options, cores, io));
}

async function bench({ size, svg, json, ...given }: BenchOptions, cores: number, io: CommandIo): Promise<void> {
  const order: CurveOrder = { ...given, senders: Math.min(given.senders, given.connections), bodyBytes: size };
  const machine = { cores, load_before: Number(loadavg()[0]!.toFixed(2)), in_memory: await isInMemory() };
  const runs: BenchRun[] = [];
  const progress = showBenchProgress(order.workers.length, WARM_UP_SECONDS + order.seconds, io.stderr);
  const isStopped = await untilSignal(async (stop) => {
    await measureCurve(order, io, progress, stop, (run) => runs.push(run)).catch((error) => {
      if (!stop.aborted) throw error;
    });
    return stop.aborted;
  }).finally(progress.stop);
  const report = benchReportOf(order, runs, machine);
  if (json) printJson(io, report);
  else if (runs.length > 0) printText(io, describeReport(report));
  if (svg !== undefined && runs.length > 0) await writeFile(resolve(io.directory, svg), drawReport(report));
  if (isStopped)
    throw new CommandError(
      `Stopped after ${runs.length} of ${order.workers.length} measurements; their temporary files are deleted.`,
    );
  if (report.faults.length > 0)
    throw new CommandError(
      'These figures are invalid: a request was not answered 202, or the number of stored events differs.',
    );
}

/** Powers of two below `cores`, then `cores`. */
function doublings(cores: number): number[] {
  const below = Array.from({ length: Math.ceil(Math.log2(cores)) }, (_, power) => 2 ** power);
  return [...below, cores];
}

function parseWorkers(given: string): number[] {
  const parse = wholeNumber(256);
  const list = given.split(',').map((each) => parse(each.trim()));
  if (new Set(list).size === list.length) return list;
  throw new InvalidArgumentError('Give each number once, e.g. 1,2,4.');
}

/**
 * Measures each number of processes and reports each run when it is complete. Rejects with AbortError when `stop` aborts. In every case,
 * all started processes have ended and the folder is removed before the promise settles.
 */
async function measureCurve(
  order: CurveOrder,
  given: CommandIo,
  progress: BenchProgress,
  stop: AbortSignal,
  onRun: (run: BenchRun) => void,
): Promise<void> {
  const directory = await makeDirectory();
  const environment = {
    ...withoutSettings(given.environment),
    DATA_DIR: directory,
    // Postgres reserves connections for the largest number of processes.
    WORKERS: String(Math.max(...order.workers)),
    RATE_LIMIT_INGEST_MAX: '1000000000',
  };
  const io = { ...given, environment, directory };
  const secret = randomBytes(24).toString('base64url');
  const signed = signedRequest(secret, benchBody(order.bodyBytes));

  /** One window on a Weir with this number of processes. */
  async function measureWeir({ database }: CommandSession, workers: number): Promise<Window> {
    const [port, metricsPort] = [await freePort(), await freePort()];
    const weir = await startChild({
      name: `Weir with WORKERS=${workers}`,
      args: startArguments,
      environment: { ...environment, WORKERS: String(workers), PORT: String(port), METRICS_PORT: String(metricsPort) },
      directory,
      readyText: '"event":"listening"',
    });
    try {
      const { call } = await openLocal(io);
      const { id } = await call('createWebhook', { input: { name: 'bench', secret } });
      const { senders, seconds, connections } = order;
      const backends = { text: 'select pid from pg_stat_activity' };
      const window = {
        load: { port, request: requestBytes(port, `/in/${id}`, signed), connections },
        senders,
        seconds,
        weirPids: nodeChildren(weir.pid),
        postgresPids: async () => (await database.query<{ pid: number }>(backends)).map(({ pid }) => pid),
        onSecond: progress.second,
      };
      return await measureWindow(window, stop);
    } finally {
      await weir.stop();
    }
  }

  const measure = async (session: CommandSession) => {
    const { database } = session;
    for (const workers of order.workers) {
      stop.throwIfAborted();
      progress.phase(`WORKERS=${workers}`);
      await emptyTable(database, 'events');
      const window = await measureWeir(session, workers);
      // Weir has exited, so no more rows can follow.
      const [row] = await database.query<{ count: number }>({ text: 'select count(*)::int as count from events' });
      onRun(runOf(workers, window, row!.count));
    }
  };
  try {
    const session = await openCommandSession(io, { migrates: true, endsOnSignal: false });
    await measure(session).finally(session.detach);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Removes each setting, and each that names a file (DATABASE_URL_FILE): the bench uses neither the operator's database nor their settings. */
function withoutSettings(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const settings = new Set([...Object.keys(settingTable), ...secretFileNames]);
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !settings.has(name)));
}
