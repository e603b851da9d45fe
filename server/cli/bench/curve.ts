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
  workers: readonly number[];
  seconds: number;
  bodyBytes: number;
  connections: number;
  senders: number;
}

/** Rejects with AbortError when `stop` aborts. Before the promise settles, all started processes have ended and the folder is removed. */
export async function measureCurve(
  order: CurveOrder,
  given: CommandIo,
  progress: BenchProgress,
  stop: AbortSignal,
  onRun: (run: Run) => void,
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
      args: [builtFile('server/cli/weir.js'), 'start'],
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
    await withDatabase(io, measure, { migrates: true });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The bench neither touches the operator's database nor measures their settings. */
function withoutSettings(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !(name in settingTable)));
}
