/** The receivers of `peers`: signed requests, answered 202 after the commit, to Weir and to Fastify with a queue. */
import { join } from 'node:path';
import { nodeChildren } from '../../server/operate/load/child.ts';
import type { QueueName } from '../peers/queues/open.ts';
import type { QueueOrder } from '../peers/queues/queue.ts';
import { BARE, type Contestant, startBare, startPeer, WEIR_1, WEIR_2 } from './contestants.ts';
import type { BenchDatabase } from './database.ts';
import { atLeast, type BenchContext, inRounds, tabulate } from './outcome.ts';
import type { BenchRedis } from './redis.ts';
import { formatNumber, ratioByRound, spreadOf } from './stats.ts';
import type { RunningWeir } from './weir.ts';
import {
  emptiedTables,
  type LoadWindow,
  loadFigures,
  measureLoad,
  ownUs,
  type Store,
  totalUs,
  windowFaults,
} from './window.ts';

interface Receiver extends Contestant {
  windows: LoadWindow[];
}

const WEIR_AGENT = `${WEIR_2}, an agent`;
const CONNECTIONS = 256;
const TIMES_PEER = 6;

interface Parts {
  bench: BenchDatabase;
  redis: BenchRedis | null;
  order: QueueOrder;
}

/** Weir with one process, with two, and with two and an agent at the webhook, as a queue has a consumer; and the bare answer. */
export async function weirReceivers(
  context: BenchContext,
  { bench, redis }: Parts,
  [one, two]: readonly [RunningWeir, RunningWeir],
  withAgent: { id: string },
): Promise<Receiver[]> {
  const store = storeOf('agent.run', bench, redis, '');
  const all: Contestant[] = [
    { name: WEIR_1, url: one.url, processes: one.processes, store },
    { name: WEIR_2, url: two.url, processes: two.processes, store },
    { name: WEIR_AGENT, url: `${two.origin}/in/${withAgent.id}`, processes: two.processes, store },
    await startBare(context, bench),
  ];
  return all.map((each): Receiver => ({ ...each, windows: [] }));
}

/** Starts Fastify with a queue; `undo` stops it. */
export async function startPeerReceiver(
  context: BenchContext,
  { bench, redis, order }: Parts,
  name: QueueName,
): Promise<Receiver> {
  const { directory, secret } = bench;
  const title = `Fastify, 2 processes, ${name === 'insert' ? 'an INSERT a request' : name}`;
  const argsOf = (port: number) => [JSON.stringify({ port, secret, name, order })];
  const peer = await startPeer(context, title, 'receive', directory, argsOf);
  const store = storeOf(name, bench, redis, order.queue);
  return { ...peer, processes: nodeChildren(peer.pid), store, windows: [] };
}

/** Measures each receiver. Resolves with the table, measures, ratios, goals and faults. */
export async function measureReceivers(context: BenchContext, bench: BenchDatabase, receivers: readonly Receiver[]) {
  const script = join(bench.directory, 'request.lua');
  await inRounds(context, receivers, async (receiver) => {
    const { name, windows } = receiver;
    const window = await measureLoad(context, bench.database, { ...receiver, script, connections: CONNECTIONS });
    windows.push(window);
    return `${name}: ${formatNumber(window.requestsPerSecond)} requests/s, ${formatNumber(totalUs(window))} us`;
  });
  return summarise(receivers);
}

function summarise(receivers: readonly Receiver[]) {
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
  const { table, measures } = tabulate(`receiving, ${CONNECTIONS} connections`, receivers, [
    ...loadFigures,
    ['own CPU, us', null, ({ windows }) => windows.map(({ us }) => ownUs(us))],
    ['store, us', null, ({ windows }) => windows.map(({ us }) => us.postgres)],
    ['all, us', null, ({ windows }) => windows.map(totalUs)],
  ]);
  return {
    table,
    measures,
    ratios,
    goals: peers.length === 0 ? [] : [atLeast(`requests/s, ${WEIR_2} over the best of Fastify:`, overBest, TIMES_PEER)],
    faults: receivers.flatMap(({ name, windows }) => windowFaults(name, windows)),
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
