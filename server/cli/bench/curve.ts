/**
 * The curve: a Weir of its own for each number of processes, one after the other on one database.
 *
 *     empty the table, checkpoint, `weir start`, warm-up, measured window, wait for the last answers, TERM, count the rows
 */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { checked } from '../../api/input.ts';
import { webhookInput } from '../../api/webhooks/schema.ts';
import { Webhooks } from '../../api/webhooks/service.ts';
import { commandActor } from '../../audit/actor.ts';
import { Changes } from '../../db/announce.ts';
import { derivedKeys } from '../../secrets/keys.ts';
import { settingTable } from '../../settings/table.ts';
import { made } from '../change.ts';
import type { CommandIo } from '../io.ts';
import { type Session, withDatabase } from '../session.ts';
import { startChild } from './child.ts';
import { freshStart, makeDirectory } from './ground.ts';
import { freePort } from './port.ts';
import type { Progress } from './progress.ts';
import { nodeChildren } from './resident.ts';
import { type Run, runOf } from './run.ts';
import { bodyOf, requestBytes, type SignedRequest, signedRequest } from './signed.ts';
import { measureWindow, type Window } from './window.ts';

export interface CurveOrder {
  /** Numbers of serving processes, in the order in which they are measured. */
  workers: readonly number[];
  /** Of one window. */
  seconds: number;
  bodyBytes: number;
  connections: number;
  /** Threads that send. */
  senders: number;
}

const weirFile = fileURLToPath(new URL('../weir.js', import.meta.url));

/**
 * Measures, and tells each run when it is done. Rejects with AbortError once `stop` aborts. However it ends, what it started
 * has ended before, and its folder is gone.
 */
export async function measureCurve(
  order: CurveOrder,
  io: CommandIo,
  progress: Progress,
  stop: AbortSignal,
  onRun: (run: Run) => void,
): Promise<void> {
  const directory = await makeDirectory();
  try {
    const environment = {
      ...withoutSettings(io.environment),
      DATA_DIR: directory,
      // Room in Postgres for the largest.
      WORKERS: String(Math.max(...order.workers)),
      RATE_LIMIT_INGEST_MAX: '1000000000',
    };
    await withDatabase({ ...io, environment, directory }, async (session) => {
      const secret = randomBytes(24).toString('base64url');
      const path = await makeEndpoint(session, secret);
      const signed = signedRequest(secret, bodyOf(order.bodyBytes));
      for (const workers of order.workers) {
        stop.throwIfAborted();
        progress.phase(`WORKERS=${workers}`);
        await freshStart(session.database, 'events');
        const window = await measureWeir({ ...order, workers, path, signed, environment }, session, progress, stop);
        onRun(runOf(workers, window, await countEvents(session)));
      }
    });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

type WeirOrder = Omit<CurveOrder, 'workers' | 'bodyBytes'> & {
  workers: number;
  path: string;
  signed: SignedRequest;
  environment: NodeJS.ProcessEnv;
};

/** Starts a Weir with so many processes, measures one window, and stops it. */
async function measureWeir(
  { workers, seconds, connections, senders, path, signed, environment }: WeirOrder,
  { database, settings }: Session,
  progress: Progress,
  stop: AbortSignal,
): Promise<Window> {
  const [port, metricsPort] = [await freePort(), await freePort()];
  const weir = await startChild({
    name: `Weir with WORKERS=${workers}`,
    args: [weirFile, 'start'],
    environment: { ...environment, WORKERS: String(workers), PORT: String(port), METRICS_PORT: String(metricsPort) },
    directory: settings.DATA_DIR,
    readyText: '"event":"listening"',
  });
  try {
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

/** Committed rows. Nothing is under way any more when Weir has ended. */
async function countEvents({ database }: Session): Promise<number> {
  const [row] = await database.query<{ count: number }>({ text: 'select count(*)::int as count from events' });
  return row!.count;
}

/** Resolves with the path of an endpoint that verifies with `secret`. */
async function makeEndpoint({ database, conninfo, keys, settings }: Session, secret: string): Promise<string> {
  const parts = { database, changes: new Changes(conninfo), key: derivedKeys(keys, 'webhook-secrets')[0]! };
  const input = checked(webhookInput(settings).create, { name: 'bench', secret });
  const { id } = made(await new Webhooks(parts, commandActor()).add(input), 'the endpoint was not made');
  return `/in/${id}`;
}

/** The operator's database is not touched, and their settings are not what is measured. */
function withoutSettings(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !(name in settingTable)));
}
