/** The consumers of `peers`: a backlog drained with an empty handler, and the time from commit to handler at a constant rate. */
import { setTimeout as delay } from 'node:timers/promises';
import { benchBody } from '../../server/operate/load/environment.ts';
import { readProcessor, timeBetween } from '../../server/operate/load/processor.ts';
import type { QueueName } from '../peers/queues/open.ts';
import type { QueueOrder } from '../peers/queues/queue.ts';
import { type Consumer, startConsumer } from './consumer.ts';
import type { BenchDatabase } from './database.ts';
import { atLeast, type BenchContext, below, type Measure, type Ratio, type Table } from './outcome.ts';
import { settle, storeOf } from './peer-receivers.ts';
import type { BenchRedis } from './redis.ts';
import { formatNumber, formatSpread, percentile, ratioByRound, spreadOf } from './stats.ts';
import { ownUs } from './window.ts';

/** Processor time of a job in microseconds: of the consumers, of Weir, and of Postgres or Redis. */
const parts = ['client', 'weir', 'store'] as const;
type Part = (typeof parts)[number];

interface Cell {
  queue: QueueName;
  concurrency: number;
  consumers: number;
  perSecond: number[];
  us: Record<Part, number>[];
}

export interface Latency {
  queue: QueueName;
  p50Ms: number[];
  p95Ms: number[];
}

/** Jobs of a backlog. */
export const STORED = 30_000;
export const BODY_BYTES = 1024;
const CONCURRENCIES = [1, 10, 100];
const CONSUMERS = [1, 4];
const WARM_UP_MS = 500;
const LOOK_MS = 20;
const PACED = { perSecond: 100, concurrency: 10, warmUpSeconds: 1 };
const PEERS: readonly QueueName[] = ['graphile-worker', 'graphile-worker, batches', 'pg-boss', 'BullMQ'];
/** By default pg-boss fetches one job every two seconds. */
const DEFAULT_PEERS: readonly QueueName[] = ['graphile-worker', 'BullMQ'];
const TIMES_BATCHES = 2.5;

interface Parts {
  bench: BenchDatabase;
  redis: BenchRedis | null;
  order: QueueOrder;
  weirPids: readonly number[];
  /** Stores the backlog of Weir's agent. */
  renewWeir: () => Promise<void>;
}

export function cellsOf(queues: readonly QueueName[]): Cell[] {
  return CONSUMERS.flatMap((consumers) =>
    CONCURRENCIES.flatMap((concurrency) =>
      queues.map((queue): Cell => ({ queue, concurrency, consumers, perSecond: [], us: [] })),
    ),
  );
}

function nameOf({ queue, concurrency, consumers }: Cell): string {
  return `${queue}, concurrency ${concurrency}${consumers === 1 ? '' : `, ${consumers} consumers`}`;
}

const isAlike = (one: Cell, other: Cell) => one.concurrency === other.concurrency && one.consumers === other.consumers;
const isWeir = (queue: QueueName) => ['agent.run', 'plain HTTP', 'MCP'].includes(queue);

/** Fills the queue, and drains it until it is empty or the window ends. Resolves with a line of progress. */
export async function measureCell(
  context: BenchContext,
  { bench, redis, order, weirPids, renewWeir }: Parts,
  cell: Cell,
): Promise<string> {
  const { queue, concurrency } = cell;
  const store = storeOf(queue, bench, redis, order.queue);
  if (!isWeir(queue)) await store.empty();
  await withConsumers(context, queue, order, cell.consumers, async (consumers) => {
    if (isWeir(queue)) await renewWeir();
    else await consumers[0]!.ask({ ask: 'fill', count: STORED, body: benchBody(BODY_BYTES) });
    await settle(queue, bench);
    await Promise.all(consumers.map((each) => each.ask({ ask: 'consume', concurrency })));
    await delay(WARM_UP_MS);
    const pids = consumers.map(({ pid }) => pid);
    const read = async () => ({
      client: readProcessor(pids, []),
      server: readProcessor(isWeir(queue) ? weirPids : [], await store.pids()),
    });
    const [before, from] = [await read(), await countOf(consumers)];
    const startMs = Date.now();
    let now = from;
    while (Date.now() < startMs + context.seconds * 1_000 && now.handled < STORED) {
      await delay(LOOK_MS);
      now = await countOf(consumers);
    }
    const endMs = now.handled < STORED ? Date.now() : now.lastMs;
    const after = await read();
    const done = now.handled - from.handled;
    const server = timeBetween(before.server, after.server);
    cell.perSecond.push((done / (endMs - startMs)) * 1_000);
    cell.us.push({
      client: ownUs(timeBetween(before.client, after.client)) / done,
      weir: ownUs(server) / done,
      store: server.postgres / done,
    });
  });
  return `${nameOf(cell)}: ${formatNumber(cell.perSecond.at(-1)!)} jobs/s, ${formatNumber(allUs(cell).at(-1)!)} us`;
}

/** Adds jobs at a constant rate, in the process that handles them. Resolves with a line of progress. */
export async function measureLatency(context: BenchContext, { bench, redis, order }: Parts, latency: Latency) {
  const { queue } = latency;
  await storeOf(queue, bench, redis, order.queue).empty();
  await withConsumers(context, queue, order, 1, async ([consumer]) => {
    await consumer!.ask({ ask: 'consume', concurrency: PACED.concurrency });
    const pace = { ask: 'pace', body: order.weir.body, perSecond: PACED.perSecond } as const;
    await consumer!.ask({ ...pace, seconds: PACED.warmUpSeconds });
    const { latenciesMs } = await consumer!.ask({ ...pace, seconds: context.seconds });
    latency.p50Ms.push(percentile(latenciesMs!, 0.5));
    latency.p95Ms.push(percentile(latenciesMs!, 0.95));
  });
  return `${queue}: commit to handler p95 ${formatNumber(latency.p95Ms.at(-1)!)} ms`;
}

async function withConsumers(
  { signal }: BenchContext,
  queue: QueueName,
  order: QueueOrder,
  count: number,
  work: (consumers: readonly Consumer[]) => Promise<void>,
): Promise<void> {
  const consumers: Consumer[] = [];
  try {
    // One after the other, so that only the first creates tables.
    for (let i = 0; i < count; i++) consumers.push(await startConsumer(queue, order, signal));
    await work(consumers);
  } finally {
    await Promise.all(consumers.map((each) => each.stop()));
  }
}

async function countOf(consumers: readonly Consumer[]): Promise<{ handled: number; lastMs: number }> {
  const answers = await Promise.all(consumers.map((each) => each.ask({ ask: 'count' })));
  return {
    handled: answers.reduce((sum, { handled }) => sum + handled, 0),
    lastMs: Math.max(...answers.map(({ lastMs }) => lastMs)),
  };
}

const usOf = ({ us }: Cell, part: Part) => us.map((one) => one[part]);
const allUs = ({ us }: Cell) => us.map((one) => parts.reduce((sum, part) => sum + one[part], 0));

export function summariseConsumers(cells: readonly Cell[], latencies: readonly Latency[]) {
  const compared = cells
    .filter(({ queue }) => queue === 'agent.run')
    .map((weir) => ({ weir, peers: cells.filter((cell) => PEERS.includes(cell.queue) && isAlike(cell, weir)) }));
  const ratios = compared.flatMap(({ weir, peers }) =>
    peers.flatMap((to): Ratio[] => [
      { of: `${nameOf(weir)}, jobs/s`, to: to.queue, values: ratioByRound(weir.perSecond, to.perSecond) },
      { of: `${nameOf(weir)}, CPU`, to: to.queue, values: ratioByRound(allUs(weir), allUs(to)) },
    ]),
  );
  const goals = compared.flatMap(({ weir, peers }) => {
    const byDefault = peers.filter(({ queue }) => DEFAULT_PEERS.includes(queue));
    if (byDefault.length === 0) return [];
    const rate = Math.max(...byDefault.map(({ perSecond }) => spreadOf(perSecond).median));
    const us = Math.min(...byDefault.map((cell) => spreadOf(allUs(cell)).median));
    const batches = peers.find(({ queue }) => queue === 'graphile-worker, batches')!;
    const [name, cpu] = [nameOf(weir), allUs(weir)];
    return [
      atLeast(
        `jobs/s, ${name} over the best peer at its defaults:`,
        weir.perSecond.map((one) => one / rate),
        1,
      ),
      below(
        `CPU a job, ${name} over the best peer at its defaults:`,
        cpu.map((one) => one / us),
        1,
      ),
      below(`CPU a job, ${name} over graphile-worker in batches:`, ratioByRound(cpu, allUs(batches)), TIMES_BATCHES),
    ];
  });
  const tables: Table[] = [
    {
      header: ['consuming', 'jobs/s', 'client, us', 'Weir, us', 'Postgres or Redis, us', 'all, us'],
      rows: cells.map((cell) => [
        nameOf(cell),
        formatSpread(cell.perSecond),
        ...parts.map((part) => formatSpread(usOf(cell, part))),
        formatSpread(allUs(cell)),
      ]),
    },
    {
      header: [`commit to handler at ${PACED.perSecond}/s`, 'p50 ms', 'p95 ms'],
      rows: latencies.map(({ queue, p50Ms, p95Ms }) => [queue, formatSpread(p50Ms), formatSpread(p95Ms)]),
    },
  ];
  const measures: Measure[] = [
    ...cells.flatMap((cell) => [
      { name: `${nameOf(cell)}: jobs`, unit: 'jobs/s', values: cell.perSecond },
      ...parts.map((part) => ({ name: `${nameOf(cell)}: ${part}`, unit: 'us', values: usOf(cell, part) })),
    ]),
    ...latencies.flatMap(({ queue, p50Ms, p95Ms }) => [
      { name: `${queue}: p50 from commit`, unit: 'ms', values: p50Ms },
      { name: `${queue}: p95 from commit`, unit: 'ms', values: p95Ms },
    ]),
  ];
  return { tables, measures, ratios, goals };
}
