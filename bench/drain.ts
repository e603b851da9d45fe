/**
 * Scenario `drain`: rate and processor time at which a backlog is processed. Each delivery is claimed with its body and acknowledged.
 *
 *     each round:  1, 10 and 100 at a time: least queue | claim, ack | claim with the last ack | client library;  then 4 consumers of 500
 *     each turn:   rows recreated, vacuum, checkpoint, then claims and acks until all are done or the window ends
 *
 * The deliveries' history has the partitions of a month, as every installation has after a month.
 */

import { Agent } from '../server/deliver/client/index.ts';
import { readProcessor, timeBetween } from '../server/operate/load/processor.ts';
import { openBenchAgent } from './lib/agent.ts';
import { type Backlog, countDone, renewDeliveries, storeEvents } from './lib/backlog.ts';
import { createPast, postgresPids, settledRows } from './lib/database.ts';
import { openLeastQueue, renewLeastQueue } from './lib/least-queue.ts';
import {
  atLeast,
  type BenchContext,
  type BenchOutcome,
  below,
  inRounds,
  type Scenario,
  tabulate,
} from './lib/outcome.ts';
import { formatNumber, ratioByRound } from './lib/stats.ts';
import { type OpenedWeir, openWeir } from './lib/weir.ts';
import { ownUs } from './lib/window.ts';

const STORED = 50_000;
const BODY_BYTES = 1024;
/** The default of RETENTION_DAYS. */
const HISTORY_DAYS = 30;
/** Consumers at the same time, and what each claims. */
const MANY = { consumers: 4, claimSize: 500 };
/** Claims of one by several consumers before the first round: V8 optimises the request path after a few thousand of them. */
const WARM_UP = { consumers: 8, seconds: 10 };

export const drain: Scenario = {
  name: 'drain',
  summary: '50,000 stored deliveries of 1 KiB, claimed and acknowledged',
  defaults: { rounds: 5, seconds: 4 },
  run,
};

/** Deliveries a claim, and the concurrency of the client library. */
const SIZES = [1, 10, 100];
/** Processor time of a delivery in microseconds. The client is the process of the bench; for the least queue it is the whole queue. */
const parts = ['postgres', 'weir', 'client'] as const;
type Part = (typeof parts)[number];

interface Turn {
  perSecond: number;
  us: Record<Part, number>;
}

/** One contestant of the rotation, and its turns so far. */
interface Drain {
  way: 'least queue' | 'HTTP' | 'one request' | 'client library' | 'many';
  /** Deliveries a claim. */
  size: number;
  name: string;
  turns: Turn[];
  /** Creates the rows, with statistics and indexes as after sending. */
  renew: () => Promise<void>;
  /** Works until nothing is left or the signal aborts; resolves with the number of deliveries. */
  work: (signal: AbortSignal) => Promise<number>;
  /** Deliveries that the database has as done. */
  countDone: () => Promise<number>;
}

async function run(context: BenchContext): Promise<BenchOutcome> {
  const opened = await openWeir(context);
  const { database } = opened;
  await createPast(database, HISTORY_DAYS);
  const drains = await openDrains(context, opened);
  const faults: string[] = [];
  await inRounds(context, drains, async (drain) => {
    await drain.renew();
    const { done, turn } = await measure(context, drain, opened);
    drain.turns.push(turn);
    const stored = await drain.countDone();
    if (stored !== done) faults.push(`${drain.name}: ${stored} deliveries are done for ${done} that were acknowledged`);
    const us = parts.map((part) => `${part} ${formatNumber(turn.us[part])} us`);
    return `${drain.name}: ${formatNumber(turn.perSecond)} deliveries/s, ${us.join(', ')}`;
  });
  return summarise(drains, faults);
}

async function openDrains(context: BenchContext, { conninfo, database, weir }: OpenedWeir): Promise<Drain[]> {
  const webhook = await weir.addWebhook();
  const agent = await weir.addAgent([webhook.id]);
  const backlog: Backlog = { webhookId: webhook.id, agentId: agent.id, rows: STORED, bodyBytes: BODY_BYTES };
  context.say(`storing ${formatNumber(STORED)} events`);
  await storeEvents(database, backlog);
  const least = await openLeastQueue(database, conninfo);
  context.undo(() => least.close());
  // All consumers share one session: sign-ins are rate-limited, and each claim in flight has its own connection anyway.
  const client = await openBenchAgent(weir.origin, agent.credential);
  context.undo(() => client.close());
  const library = new Agent({ url: weir.origin, credential: agent.credential });
  context.undo(() => library.close());

  const drainLeast = (max: number) => () => least.step(max);
  const drainHttp = (max: number) => async () => {
    const deliveries = await client.claim({ max, waitSeconds: 0 });
    if (deliveries.length > 0) await client.ack(deliveries);
    return deliveries.length;
  };
  const drainInOneRequest =
    (max: number): Drain['work'] =>
    async (signal) => {
      let done = 0;
      let held = await client.claim({ max, waitSeconds: 0 });
      while (held.length > 0 && !signal.aborted) {
        const next = await client.claim({ max, waitSeconds: 0, ack: held });
        done += held.length;
        held = next;
      }
      if (held.length > 0) await client.ack(held);
      return done + held.length;
    };
  const drainByLibrary =
    (concurrency: number): Drain['work'] =>
    async (signal) =>
      (await library.run(() => {}, { concurrency, max: STORED, signal })).done;
  const ofLeast = {
    renew: () => renewLeastQueue(database, STORED, BODY_BYTES),
    countDone: async () => STORED - (await settledRows(database, 'least_queue')),
  };
  const ofWeir = { renew: () => renewDeliveries(database, backlog), countDone: () => countDone(database) };
  const drain = (way: Drain['way'], size: number, name: string, work: Drain['work']): Drain => {
    return { ...(way === 'least queue' ? ofLeast : ofWeir), way, size, name, work, turns: [] };
  };
  context.say('warming up');
  await ofWeir.renew();
  const warmUpEnds = AbortSignal.timeout(WARM_UP.seconds * 1000);
  await steps(drainHttp(1), WARM_UP.consumers)(AbortSignal.any([context.signal, warmUpEnds]));
  return [
    ...SIZES.flatMap((size) => [
      drain('least queue', size, `least queue, ${size} a claim`, steps(drainLeast(size))),
      drain('HTTP', size, `Weir, ${size} a claim`, steps(drainHttp(size))),
      drain('one request', size, `Weir, ${size} a claim, which acknowledges the last`, drainInOneRequest(size)),
      drain('client library', size, `client library, concurrency ${size}`, drainByLibrary(size)),
    ]),
    drain(
      'many',
      MANY.claimSize,
      `Weir, ${MANY.consumers} consumers, ${MANY.claimSize} a claim`,
      steps(drainHttp(MANY.claimSize), MANY.consumers),
    ),
  ];
}

/** Repeats the step, in `consumers` loops at once, until nothing is left or the signal aborts. */
function steps(step: () => Promise<number>, consumers = 1): Drain['work'] {
  return async (signal) => {
    let done = 0;
    const drainOne = async () => {
      while (!signal.aborted) {
        const count = await step();
        if (count === 0) return;
        done += count;
      }
    };
    await Promise.all(Array.from({ length: consumers }, drainOne));
    return done;
  };
}

async function measure(
  { seconds, signal }: BenchContext,
  { work }: Drain,
  { database, weir }: OpenedWeir,
): Promise<{ done: number; turn: Turn }> {
  signal.throwIfAborted();
  const read = async () => readProcessor(weir.processes, await postgresPids(database));
  const before = await read();
  const ownBefore = process.cpuUsage();
  const startMs = performance.now();
  const done = await work(AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)]));
  const perSecond = done / ((performance.now() - startMs) / 1000);
  const own = process.cpuUsage(ownBefore);
  signal.throwIfAborted();
  const time = timeBetween(before, await read());
  const us = { postgres: time.postgres / done, weir: ownUs(time) / done, client: (own.user + own.system) / done };
  return { done, turn: { perSecond, us } };
}

const notes = [
  'us is the processor time of a delivery. One Weir with 1 process; the client (the process of the bench, which for the least queue is the whole queue), Weir and Postgres share the cores. A consumer over HTTP claims, acknowledges, and claims again; the handler of the client library is empty.',
  'The least queue is one table without partitions, a statement that leases (update .. for update skip locked .. returning) and a delete, over one libpq connection.',
  `Before the first round ${WARM_UP.consumers} consumers claim one at a time for ${WARM_UP.seconds} s, so that Weir's code is optimised as in a process that has run for a while.`,
  `Deliveries are partitioned by ${HISTORY_DAYS} days of history and those ahead.`,
];

function summarise(drains: readonly Drain[], faults: string[]): BenchOutcome {
  const rates = ({ turns }: Drain) => turns.map(({ perSecond }) => perSecond);
  const usOf = ({ turns }: Drain, ...of: Part[]) => turns.map(({ us }) => of.reduce((sum, part) => sum + us[part], 0));
  const find = (way: Drain['way'], size: number) => drains.find((one) => one.way === way && one.size === size)!;
  const library = (size: number) => find('client library', size);
  const overLeast = (way: 'HTTP' | 'one request', size: number) => ({
    of: `${find(way, size).name}, CPU of Weir and Postgres`,
    to: 'least queue, with its client',
    values: ratioByRound(
      usOf(find(way, size), 'postgres', 'weir'),
      usOf(find('least queue', size), 'postgres', 'client'),
    ),
  });
  const rate = (one: Drain, limit: number) => atLeast(`${one.name}:`, rates(one), limit, 'deliveries/s');
  const { table, measures } = tabulate('', drains, [
    ['deliveries/s', ['', 'deliveries/s'], rates],
    ...parts.map((part) => [`${part}, us`, [part, 'us'], (one: Drain) => usOf(one, part)] as const),
    ['all, us', null, (one) => usOf(one, ...parts)],
  ]);
  return {
    tables: [table],
    measures,
    ratios: SIZES.flatMap((size) => [overLeast('HTTP', size), overLeast('one request', size)]),
    goals: [
      ...SIZES.flatMap((size) => {
        const what = (requests: string) => `CPU of a claim and ack of ${size} over the least queue, in ${requests}:`;
        const limit = size === 1 ? 1.8 : 1.6;
        return [
          below(what('two requests'), overLeast('HTTP', size).values, limit),
          below(what('one request'), overLeast('one request', size).values, limit),
        ];
      }),
      below("Weir's own share of a claim and ack of 1:", usOf(find('HTTP', 1), 'weir'), 800, 'us'),
      rate(library(1), 450),
      rate(library(10), 5_000),
      rate(library(100), 12_000),
      ...[10, 100].map((size) =>
        below(`CPU of a delivery, all parts, ${library(size).name}:`, usOf(library(size), ...parts), 150, 'us'),
      ),
      rate(find('many', MANY.claimSize), 15_000),
    ],
    notes,
    faults,
  };
}
