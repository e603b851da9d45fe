/**
 * Scenario `tail`: the slowest requests at a constant rate (open loop), on a new embedded database as `weir start` makes it, beside Weir and
 * the least program on a database whose WAL files exist.
 *
 *     each round:  for each rate:  Weir, new | Weir, recycled | least, recycled | Weir, new, agents | Weir, recycled, agents
 */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { emptyTable } from '../server/operate/load/environment.ts';
import { type Database, openDatabase } from '../server/store/connect/pool.ts';
import { fillWalPool } from '../server/store/embedded/settings.ts';
import { type AgentClient, type BenchDelivery, openBenchAgent } from './lib/agent.ts';
import { startLeast } from './lib/contestants.ts';
import { openBenchDatabase } from './lib/database.ts';
import { measureOpenLoop, OPEN_LOOP_WARM_UP_SECONDS, type OpenLoopWindow, type Percentiles } from './lib/open-loop.ts';
import { type BenchContext, type BenchOutcome, below, inRounds, type Scenario, tabulate } from './lib/outcome.ts';
import { formatNumber, ratioByRound } from './lib/stats.ts';
import { type RunningWeir, startWeir } from './lib/weir.ts';

const RATES = [1_500, 5_000, 10_000];
/** One webhook for each agent. */
const AGENTS = 3;
const CLAIM_MAX = 500;
const WAIT_SECONDS = 1;
/** WAL of an event of 1 KiB, and of its delivery. */
const WAL_BYTES = 3_200;
const WAL_FILE_BYTES = 2 ** 24;
const WAL_FILES_MAX = 250;
/** Time that a new database has to prepare itself. */
const READY_SECONDS = 60;
/** Goals. */
const TIMES_RECYCLED_MAX = 1.2;
const TIMES_LEAST_MAX = 2;
const TIMES_ALONE_MAX = 2;
const NEW = 'Weir, new database';
const RECYCLED = 'Weir, recycled WAL';
const LEAST = 'least program, recycled WAL';
const BESIDE = `, beside ${AGENTS} agents`;

export const tail: Scenario = {
  name: 'tail',
  summary: `the slowest requests at ${RATES.map(formatNumber).join(', ')}/s on a new database`,
  defaults: { rounds: 1, seconds: 180 },
  run,
};

interface Series {
  contestant: string;
  rate: number;
  windows: OpenLoopWindow[];
}

async function run(context: BenchContext): Promise<BenchOutcome> {
  const bench = await openBenchDatabase(context);
  const { secret } = bench;
  await recycleWal(context, bench.database);
  const weir = await startWeir({ ...bench, processes: 1 });
  context.undo(() => weir.stop());
  const [alone, served] = [await addTargets(weir, false), await addTargets(weir, true)];
  const least = await startLeast(context, bench);
  const leastTargets: Targets = { urls: alone.urls.map(() => least.url), clients: [] };

  const measure = ({ urls, clients }: Targets, perSecond: number, database: Database) =>
    whileClaiming(clients, () =>
      measureOpenLoop({ urls, secret, perSecond, seconds: context.seconds, database }, context.signal),
    );
  const onRecycled = async (targets: Targets, rate: number) => {
    await emptyTable(bench.database, 'events, deliveries_live, deliveries_finished');
    return measure(targets, rate, bench.database);
  };
  let databases = 0;
  const onNew = async (withAgents: boolean, rate: number) => {
    const directory = join(bench.directory, `new-${databases++}`);
    await mkdir(directory, { mode: 0o711 });
    const fresh = await startWeir({ ...bench, directory, processes: 1, settings: { DATABASE_URL: '' } });
    const conninfo = `host='${directory}/weir-1/postgres' port=5432 user=weir dbname=weir`;
    const database = openDatabase(conninfo, { connectionsMax: 1, applicationName: 'weir-bench' });
    try {
      const targets = await addTargets(fresh, withAgents);
      await delay(READY_SECONDS * 1000, undefined, { signal: context.signal });
      return await measure(targets, rate, database);
    } finally {
      await database.close();
      await fresh.stop();
      await rm(directory, { recursive: true });
    }
  };
  const contestants: Record<string, (rate: number) => Promise<OpenLoopWindow>> = {
    [NEW]: (rate) => onNew(false, rate),
    [RECYCLED]: (rate) => onRecycled(alone, rate),
    [LEAST]: (rate) => onRecycled(leastTargets, rate),
    [NEW + BESIDE]: (rate) => onNew(true, rate),
    [RECYCLED + BESIDE]: (rate) => onRecycled(served, rate),
  };
  const all: Series[] = RATES.flatMap((rate) =>
    Object.keys(contestants).map((contestant) => ({ contestant, rate, windows: [] })),
  );
  await inRounds(context, all, async ({ contestant, rate, windows }) => {
    const window = await contestants[contestant]!(rate);
    windows.push(window);
    for (const [i, slice] of window.slices.entries())
      context.say(
        `  ${(i + 1) * 10} s: ${percentilesText(slice)}, ${slice.newWalFiles} new WAL files, ${slice.checkpoints} checkpoints`,
      );
    return `${contestant}, ${formatNumber(rate)}/s: ${percentilesText(window)}`;
  });
  return summarise(all);
}

/** Makes the WAL files that the largest window fills, so that none is made in it. */
async function recycleWal({ seconds, signal, say }: BenchContext, database: Database): Promise<void> {
  const files = Math.ceil((Math.max(...RATES) * (seconds + OPEN_LOOP_WARM_UP_SECONDS) * WAL_BYTES) / WAL_FILE_BYTES);
  const kept = Math.min(files, WAL_FILES_MAX);
  say(`making ${kept} WAL files`);
  await database.query({ text: `alter system set min_wal_size = '${kept * 16}MB'` });
  await database.query({ text: 'select pg_reload_conf()' });
  // This session reads the new setting within this time.
  await delay(1_000, undefined, { signal });
  await fillWalPool(database, Number.POSITIVE_INFINITY, signal);
}

/** Where a contestant gets its requests, and the agents that claim them. */
interface Targets {
  urls: string[];
  clients: AgentClient[];
}

/** Webhooks that take turns, each with an agent of its own or with none. */
async function addTargets(weir: RunningWeir, withAgents: boolean): Promise<Targets> {
  const targets: Targets = { urls: [], clients: [] };
  for (let i = 0; i < AGENTS; i++) {
    const { id, url } = await weir.addWebhook();
    targets.urls.push(url);
    if (withAgents) targets.clients.push(await openBenchAgent(weir.origin, (await weir.addAgent([id])).credential));
  }
  return targets;
}

async function whileClaiming<T>(clients: readonly AgentClient[], work: () => Promise<T>): Promise<T> {
  let working = true;
  const claim = async (client: AgentClient) => {
    let ack: BenchDelivery[] = [];
    while (working || ack.length > 0) ack = await client.claim({ max: CLAIM_MAX, waitSeconds: WAIT_SECONDS, ack });
  };
  const claiming = Promise.all(clients.map(claim));
  try {
    const failed = new Promise<never>((_, reject) => claiming.catch(reject));
    return await Promise.race([work(), failed]);
  } finally {
    working = false;
    await claiming;
  }
}

function percentilesText({ p50Ms, p99Ms, p999Ms, maxMs }: Percentiles): string {
  const [p50, p99, p999, max] = [p50Ms, p99Ms, p999Ms, maxMs].map(formatNumber);
  return `p50 ${p50} ms, p99 ${p99}, p99.9 ${p999}, max ${max}`;
}

function summarise(all: readonly Series[]): BenchOutcome {
  const named = all.map((series) => ({ ...series, name: `${series.contestant}, ${formatNumber(series.rate)}/s` }));
  const ratioOf = (rate: number, of: string, to: string, key: 'p99Ms' | 'maxMs', limit: number) => {
    const values = (contestant: string) =>
      named.find((one) => one.rate === rate && one.contestant === contestant)!.windows.map((window) => window[key]);
    const what = key === 'p99Ms' ? 'p99' : 'max';
    return { of: `${of}, ${formatNumber(rate)}/s, ${what}`, to, values: ratioByRound(values(of), values(to)), limit };
  };
  const ratios = RATES.flatMap((rate) => [
    ...(['p99Ms', 'maxMs'] as const).flatMap((key) => [
      ratioOf(rate, NEW, RECYCLED, key, TIMES_RECYCLED_MAX),
      ratioOf(rate, NEW + BESIDE, NEW, key, TIMES_ALONE_MAX),
    ]),
    ratioOf(rate, NEW, LEAST, 'p99Ms', TIMES_LEAST_MAX),
  ]);
  const latencies = { p50: 'p50Ms', p99: 'p99Ms', 'p99.9': 'p999Ms', max: 'maxMs' } as const;
  const sumOf = (key: 'newWalFiles' | 'checkpoints') => (one: Series) =>
    one.windows.map(({ slices }) => slices.reduce((sum, slice) => sum + slice[key], 0));
  const { table, measures } = tabulate('', named, [
    ['requests/s', null, ({ windows }) => windows.map(({ perSecond }) => perSecond)],
    ...Object.entries(latencies).map(
      ([name, key]) => [`${name} ms`, [name, 'ms'], (one: Series) => one.windows.map((window) => window[key])] as const,
    ),
    ['p99 by 10 s', null, ({ windows }) => windows.flatMap(({ slices }) => slices.map(({ p99Ms }) => p99Ms))],
    ['new WAL files', null, sumOf('newWalFiles')],
    ['checkpoints', null, sumOf('checkpoints')],
  ]);
  return {
    tables: [table],
    measures,
    ratios,
    goals: ratios.map(({ of, to, values, limit }) => below(`${of}, over ${to}:`, values, limit)),
    notes: [
      `Open loop: requests to ${AGENTS} webhooks in turns, latency from the time at which one was due. Weir with 1 process; load generator, Weir and Postgres share the cores.`,
      `A new database is measured ${READY_SECONDS + OPEN_LOOP_WARM_UP_SECONDS} s after its start; ${OPEN_LOOP_WARM_UP_SECONDS} s of load come before each window.`,
      'On a quiet machine the p99 at 5,000/s is below 10 ms, and the maximum below 60.',
    ],
    faults: named.flatMap(({ name, windows }) =>
      windows.flatMap(({ failures, answers }) => [
        ...Object.entries(failures).map(([what, times]) => `${name}: ${times} times ${what}`),
        ...(answers === 0 ? [`${name}: there was no response`] : []),
      ]),
    ),
  };
}
