/**
 * The scaling curve: one Weir for each number of processes, one after another on one database.
 *
 *     empty the table, checkpoint, `weir start`, warm-up, measured window, wait for the last responses, TERM, count the rows
 */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import type { CommandIo } from '../../base/command/io.ts';
import { builtFile } from '../../base/files/build.ts';
import { settingTable } from '../../base/settings/table.ts';
import { nodeChildren, startChild } from '../../operate/load/child.ts';
import {
  type BenchRequest,
  benchBody,
  emptyTable,
  freePort,
  makeDirectory,
  requestBytes,
  signedRequest,
} from '../../operate/load/environment.ts';
import { type Run, runOf } from '../../operate/load/run.ts';
import { measureWindow, type Window } from '../../operate/load/window.ts';
import type { BenchProgress } from '../command/progress.ts';
import { type CommandSession, withDatabase } from '../command/session.ts';
import { openLocal } from '../manage/socket.ts';

export interface CurveOrder {
  /** Numbers of serving processes, in measuring order. */
  workers: readonly number[];
  /** Length of one measured window. */
  seconds: number;
  bodyBytes: number;
  connections: number;
  /** Number of sender threads. */
  senders: number;
}

/**
 * Measures each number of processes and reports each run when it is complete. Rejects with AbortError when `stop` aborts. In
 * every case, all started processes have ended and the folder is removed before the promise settles.
 */
export async function measureCurve(
  order: CurveOrder,
  io: CommandIo,
  progress: BenchProgress,
  stop: AbortSignal,
  onRun: (run: Run) => void,
): Promise<void> {
  const directory = await makeDirectory();
  try {
    const environment = {
      ...withoutSettings(io.environment),
      DATA_DIR: directory,
      // Postgres reserves connections for the largest number of processes.
      WORKERS: String(Math.max(...order.workers)),
      RATE_LIMIT_INGEST_MAX: '1000000000',
    };
    const measure = async (session: CommandSession) => {
      const secret = randomBytes(24).toString('base64url');
      const signed = signedRequest(secret, benchBody(order.bodyBytes));
      for (const workers of order.workers) {
        stop.throwIfAborted();
        progress.phase(`WORKERS=${workers}`);
        await emptyTable(session.database, 'events');
        const window = await measureWeir(
          { ...order, workers, secret, signed, environment, io },
          session,
          progress,
          stop,
        );
        onRun(runOf(workers, window, await countEvents(session)));
      }
    };
    await withDatabase({ ...io, environment, directory }, measure, { migrates: true });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

type WeirOrder = Omit<CurveOrder, 'workers' | 'bodyBytes'> & {
  workers: number;
  secret: string;
  signed: BenchRequest;
  environment: NodeJS.ProcessEnv;
  io: CommandIo;
};

/** Starts a Weir with the given number of processes, measures one window, and stops it. */
async function measureWeir(
  { workers, seconds, connections, senders, secret, signed, environment, io }: WeirOrder,
  { database, settings }: CommandSession,
  progress: BenchProgress,
  stop: AbortSignal,
): Promise<Window> {
  const [port, metricsPort] = [await freePort(), await freePort()];
  const weir = await startChild({
    name: `Weir with WORKERS=${workers}`,
    args: [builtFile('server/cli/weir.js'), 'start'],
    environment: { ...environment, WORKERS: String(workers), PORT: String(port), METRICS_PORT: String(metricsPort) },
    directory: settings.DATA_DIR,
    readyText: '"event":"listening"',
  });
  try {
    const path = await createWebhook({ ...io, environment, directory: settings.DATA_DIR }, secret);
    return await measureWindow(
      {
        load: { port, request: requestBytes(port, path, signed), connections },
        senders,
        seconds,
        weirPids: nodeChildren(weir.pid),
        postgresPids: async () =>
          (await database.query<{ pid: number }>({ text: 'select pid from pg_stat_activity' })).map(({ pid }) => pid),
        onSecond: progress.second,
      },
      stop,
    );
  } finally {
    await weir.stop();
  }
}

/** Counts committed rows. Weir has exited, so no more rows can follow. */
async function countEvents({ database }: CommandSession): Promise<number> {
  const [row] = await database.query<{ count: number }>({ text: 'select count(*)::int as count from events' });
  return row!.count;
}

/** Creates a webhook that verifies with `secret`; resolves with its path. */
async function createWebhook(io: CommandIo, secret: string): Promise<string> {
  const { call } = await openLocal(io);
  const { id } = await call('createWebhook', { input: { name: 'bench', secret } });
  return `/in/${id}`;
}

/**
 * Removes Weir's settings from the environment, so that the bench neither touches the operator's database nor measures their
 * settings.
 */
function withoutSettings(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !(name in settingTable)));
}
