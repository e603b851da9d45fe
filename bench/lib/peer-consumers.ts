/** The consumers of `peers`: a backlog drained with an empty handler, and the time from commit to handler at a constant rate. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../../server/base/command/io.ts';
import { builtFile } from '../../server/base/files/build.ts';
import { benchBody } from '../../server/operate/load/environment.ts';
import { readProcessor, timeBetween } from '../../server/operate/load/processor.ts';
import type { ConsumerAnswer, ConsumerRequest } from '../peers/consume.ts';
import type { QueueName } from '../peers/queues/open.ts';
import type { QueueOrder } from '../peers/queues/queue.ts';
import type { BenchDatabase } from './database.ts';
import { atLeast, type BenchContext, below, inRounds, type Ratio, tabulate } from './outcome.ts';
import { settle, storeOf } from './peer-receivers.ts';
import type { BenchRedis } from './redis.ts';
import { formatNumber, percentile, ratioByRound, spreadOf } from './stats.ts';
import { ownUs } from './window.ts';

/** Processor time of a job in microseconds: of the consumers, of Weir, and of Postgres or Redis. */
const parts = ['client', 'weir', 'store'] as const;
type Part = (typeof parts)[number];

interface Cell {
  name: string;
  queue: QueueName;
  concurrency: number;
  consumers: number;
  perSecond: number[];
  us: Record<Part, number>[];
}

interface Latency {
  name: QueueName;
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
  /** Stores the events of the backlog of Weir's agent. */
  fillWeir: () => Promise<void>;
  /** Makes their deliveries pending again. */
  renewWeir: () => Promise<void>;
}

/** Measures each queue at a constant rate, then with a backlog. Resolves with the tables, measures, ratios and goals. */
export async function measureConsumers(context: BenchContext, parts: Parts, queues: readonly QueueName[]) {
  const latencies = queues.map((name): Latency => ({ name, p50Ms: [], p95Ms: [] }));
  await inRounds(context, latencies, (latency) => measureLatency(context, parts, latency));
  await parts.fillWeir();
  const cells = cellsOf(queues);
  await inRounds(context, cells, (cell) => measureCell(context, parts, cell));
  return summarise(cells, latencies);
}

/** The contestants: each queue with each concurrency, by one consumer and by several. */
function cellsOf(queues: readonly QueueName[]): Cell[] {
  return CONSUMERS.flatMap((consumers) =>
    CONCURRENCIES.flatMap((concurrency) =>
      queues.map((queue): Cell => {
        const name = `${queue}, concurrency ${concurrency}${consumers === 1 ? '' : `, ${consumers} consumers`}`;
        return { name, queue, concurrency, consumers, perSecond: [], us: [] };
      }),
    ),
  );
}

const isAlike = (one: Cell, other: Cell) => one.concurrency === other.concurrency && one.consumers === other.consumers;
const isWeir = (queue: QueueName) => ['agent.run', 'plain HTTP', 'MCP'].includes(queue);

/** Fills the queue, and drains it until it is empty or the window ends. Resolves with a line of progress. */
async function measureCell(
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
  return `${cell.name}: ${formatNumber(cell.perSecond.at(-1)!)} jobs/s, ${formatNumber(allUs(cell).at(-1)!)} us`;
}

/** Adds jobs at a constant rate, in the process that handles them. Resolves with a line of progress. */
async function measureLatency(context: BenchContext, { bench, redis, order }: Parts, latency: Latency) {
  const { name: queue } = latency;
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

type Consumer = Awaited<ReturnType<typeof startConsumer>>;

/** Starts a process and waits until it is connected to its store. Rejects with CommandError. */
async function startConsumer(name: QueueName, order: QueueOrder, signal: AbortSignal) {
  const child = fork(builtFile('bench/peers/consume.js'), [JSON.stringify({ name, order })], {
    env: { ...process.env, NODE_ENV: 'production' },
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const ended = once(child, 'exit');
  /** Ends it at once, with its leases. */
  const stop = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  const kill = () => void child.kill('SIGKILL');
  signal.addEventListener('abort', kill, { once: true });
  child.once('exit', () => signal.removeEventListener('abort', kill));
  await messageOf(child, ended, name);
  /** Rejects with CommandError when the process has ended. */
  const ask = async (request: ConsumerRequest) => {
    child.send(request);
    return (await messageOf(child, ended, name)) as ConsumerAnswer;
  };
  return { pid: child.pid!, ask, stop };
}

async function messageOf(child: ChildProcess, ended: Promise<unknown>, name: string): Promise<unknown> {
  const gone = ended.then(() => {
    throw new CommandError(`a consumer of ${name} ended`);
  });
  const [message] = (await Promise.race([once(child, 'message'), gone])) as [unknown];
  return message;
}

async function countOf(consumers: readonly Consumer[]): Promise<{ handled: number; lastMs: number }> {
  const answers = await Promise.all(consumers.map((each) => each.ask({ ask: 'count' })));
  return {
    handled: answers.reduce((sum, { handled }) => sum + handled, 0),
    lastMs: Math.max(...answers.map(({ lastMs }) => lastMs)),
  };
}

const allUs = ({ us }: Cell) => us.map((one) => parts.reduce((sum, part) => sum + one[part], 0));

/** The tables, measures, ratios and goals of the consumers. */
function summarise(cells: readonly Cell[], latencies: readonly Latency[]) {
  const compared = cells
    .filter(({ queue }) => queue === 'agent.run')
    .map((weir) => ({ weir, peers: cells.filter((cell) => PEERS.includes(cell.queue) && isAlike(cell, weir)) }));
  const ratios = compared.flatMap(({ weir, peers }) =>
    peers.flatMap((to): Ratio[] => [
      { of: `${weir.name}, jobs/s`, to: to.queue, values: ratioByRound(weir.perSecond, to.perSecond) },
      { of: `${weir.name}, CPU`, to: to.queue, values: ratioByRound(allUs(weir), allUs(to)) },
    ]),
  );
  const over = (values: readonly number[], to: number) => values.map((value) => value / to);
  const goals = compared.flatMap(({ weir, peers }) => {
    const byDefault = peers.filter(({ queue }) => DEFAULT_PEERS.includes(queue));
    if (byDefault.length === 0) return [];
    const rate = Math.max(...byDefault.map(({ perSecond }) => spreadOf(perSecond).median));
    const us = Math.min(...byDefault.map((cell) => spreadOf(allUs(cell)).median));
    const batches = peers.find(({ queue }) => queue === 'graphile-worker, batches')!;
    const [name, cpu] = [weir.name, allUs(weir)];
    return [
      atLeast(`jobs/s, ${name} over the best peer at its defaults:`, over(weir.perSecond, rate), 1),
      below(`CPU a job, ${name} over the best peer at its defaults:`, over(cpu, us), 1),
      below(`CPU a job, ${name} over graphile-worker in batches:`, ratioByRound(cpu, allUs(batches)), TIMES_BATCHES),
    ];
  });
  const titles = { client: 'client, us', weir: 'Weir, us', store: 'Postgres or Redis, us' };
  const consuming = tabulate('consuming', cells, [
    ['jobs/s', ['jobs', 'jobs/s'], ({ perSecond }) => perSecond],
    ...parts.map((part) => [titles[part], [part, 'us'], ({ us }: Cell) => us.map((one) => one[part])] as const),
    ['all, us', null, allUs],
  ]);
  const waiting = tabulate(`commit to handler at ${PACED.perSecond}/s`, latencies, [
    ['p50 ms', ['p50 from commit', 'ms'], ({ p50Ms }) => p50Ms],
    ['p95 ms', ['p95 from commit', 'ms'], ({ p95Ms }) => p95Ms],
  ]);
  const measures = [...consuming.measures, ...waiting.measures];
  return { tables: [consuming.table, waiting.table], measures, ratios, goals };
}
