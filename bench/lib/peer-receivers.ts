/** The receivers of `peers`: signed requests, answered 202 after the commit, to Weir and to Fastify with a queue. */
import { join } from 'node:path';
import { nodeChildren } from '../../server/operate/load/child.ts';
import { freePort } from '../../server/operate/load/environment.ts';
import type { QueueName } from '../peers/queues/open.ts';
import type { QueueOrder } from '../peers/queues/queue.ts';
import { BARE, type Contestant, startBare, startPeer, urlOn, WEIR_1, WEIR_2 } from './contestants.ts';
import type { BenchDatabase } from './database.ts';
import { atLeast, type BenchContext } from './outcome.ts';
import type { BenchRedis } from './redis.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './stats.ts';
import type { RunningWeir, Webhook } from './weir.ts';
import {
  emptiedTables,
  faultsOf,
  measuresOf,
  measureWindow,
  ownUs,
  type Store,
  totalUs,
  type Window,
} from './window.ts';

interface Receiver extends Contestant {
  windows: Window[];
}

const WEIR_AGENT = `${WEIR_2}, an agent`;
const CONNECTIONS = 256;
const TIMES_PEER = 6;

interface Parts {
  bench: BenchDatabase;
  redis: BenchRedis | null;
  order: QueueOrder;
}

/** Weir with one process and two, and with an agent at the webhook, as a queue has one consumer; and the bare answer. */
export async function weirReceivers(
  context: BenchContext,
  { bench, redis }: Parts,
  [one, two]: readonly [RunningWeir, RunningWeir],
  withAgent: Webhook,
): Promise<Receiver[]> {
  const store = storeOf('agent.run', bench, redis, '');
  const all: Contestant[] = [
    { name: WEIR_1, url: one.url, processes: one.processes, store },
    { name: WEIR_2, url: two.url, processes: two.processes, store },
    { name: WEIR_AGENT, url: `${two.origin}/in/${withAgent.id}`, processes: two.processes, store },
    await startBare(context, bench.directory),
  ];
  return all.map((each): Receiver => ({ ...each, windows: [] }));
}

/** Starts Fastify with a queue; `undo` stops it. */
export async function startPeerReceiver(
  { undo, say }: BenchContext,
  { bench, redis, order }: Parts,
  name: QueueName,
): Promise<Receiver> {
  const title = `Fastify, 2 processes, ${name === 'insert' ? 'an INSERT a request' : name}`;
  say(`starting ${title}`);
  const port = await freePort();
  const peer = await startPeer(
    title,
    'receive',
    [JSON.stringify({ port, secret: bench.secret, name, order })],
    bench.directory,
  );
  undo(() => peer.stop());
  const store = storeOf(name, bench, redis, order.queue);
  return { name: title, url: urlOn(port), processes: nodeChildren(peer.pid), store, windows: [] };
}

/** One window of one receiver. Resolves with a line of progress. */
export async function measureReceiver(
  context: BenchContext,
  bench: BenchDatabase,
  receiver: Receiver,
): Promise<string> {
  const order = { ...receiver, script: join(bench.directory, 'request.lua'), connections: CONNECTIONS };
  const window = await measureWindow(context, bench.database, order);
  receiver.windows.push(window);
  return `${receiver.name}: ${formatNumber(window.requestsPerSecond)} requests/s, ${formatNumber(totalUs(window))} us`;
}

export function summariseReceivers(receivers: readonly Receiver[]) {
  const peers = receivers.filter(({ name }) => name.startsWith('Fastify'));
  const of = (name: string) => receivers.find((receiver) => receiver.name === name)!;
  const rates = ({ windows }: Receiver) => windows.map(({ requestsPerSecond }) => requestsPerSecond);
  const ratios = [WEIR_1, WEIR_2, WEIR_AGENT].flatMap((weir) =>
    [...peers, of(BARE)].map((to) => ({
      of: `${weir}, requests/s`,
      to: to.name,
      values: ratioByRound(rates(of(weir)), rates(to)),
    })),
  );
  const best = Math.max(...peers.map((peer) => spreadOf(rates(peer)).median));
  const overBest = rates(of(WEIR_2)).map((rate) => rate / best);
  return {
    table: {
      header: ['receiving, 256 connections', 'requests/s', 'p50 ms', 'p99 ms', 'own CPU, us', 'store, us', 'all, us'],
      rows: receivers.map(({ name, windows }) => [
        name,
        formatSpread(windows.map(({ requestsPerSecond }) => requestsPerSecond)),
        formatSpread(windows.map(({ p50Ms }) => p50Ms)),
        formatSpread(windows.map(({ p99Ms }) => p99Ms)),
        formatSpread(windows.map(({ us }) => ownUs(us))),
        formatSpread(windows.map(({ us }) => us.postgres)),
        formatSpread(windows.map(totalUs)),
      ]),
    },
    measures: receivers.flatMap(({ name, windows }) => measuresOf(name, windows)),
    ratios,
    goals: peers.length === 0 ? [] : [atLeast(`requests/s, ${WEIR_2} over the best of Fastify:`, overBest, TIMES_PEER)],
    faults: receivers.flatMap(({ name, windows }) => windows.flatMap((window) => faultsOf(name, window))),
  };
}

/** Tables that a queue writes; the first has a row for each job. */
const tables: Partial<Record<QueueName, readonly string[]>> = {
  insert: ['peer_events'],
  'graphile-worker': ['graphile_worker._private_jobs'],
  'graphile-worker, batches': ['graphile_worker._private_jobs'],
  'pg-boss': ['pgboss.job'],
};
const WEIR = ['events', 'deliveries'];

/** Where a queue stores its jobs. @param queue its name in Redis */
export function storeOf(name: QueueName, { database }: BenchDatabase, redis: BenchRedis | null, queue: string): Store {
  if (name === 'BullMQ') return redisStore(redis!, queue);
  return emptiedTables(database, tables[name] ?? WEIR);
}

/** Prepares the tables of a filled queue for claims: statistics, and no write of the filling left. */
export async function settle(name: QueueName, { database }: BenchDatabase): Promise<void> {
  const [table] = tables[name] ?? [];
  if (table !== undefined) await database.query({ text: `vacuum analyze ${table}`, timeoutMs: SETTLE_MS });
  await database.query({ text: 'checkpoint', timeoutMs: SETTLE_MS });
}

const SETTLE_MS = 120_000;

function redisStore({ client, pid }: BenchRedis, queue: string): Store {
  return {
    pids: async () => [pid],
    count: async () => {
      for (let before = -1; ; ) {
        const now = await client.llen(`bull:${queue}:wait`);
        if (now === before) return now;
        before = now;
      }
    },
    empty: async () => void (await client.flushall()),
  };
}
