/**
 * Scenario `cells`: one event stored at home, in one of two cells, and in one of four, each on a Postgres server of its own. The load on each
 * server is the same, so that batches have the same size: what cells cost is processor time, since all servers share this machine.
 *
 *     each round:  home | two cells | four cells     one load generator a server, one Weir with one process
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { benchBody, emptyTable, signedRequest } from '../server/operate/load/environment.ts';
import { type Part, type ProcessorTime, parts, readProcessor, timeBetween } from '../server/operate/load/processor.ts';
import type { Database } from '../server/store/connect/pool.ts';
import { openBenchDatabase, postgresPids, settledRows } from './lib/database.ts';
import { type BenchContext, type BenchOutcome, below, inRounds, type Scenario, tabulate } from './lib/outcome.ts';
import { formatNumber, ratioByRound } from './lib/stats.ts';
import { openWeir, type RunningWeir } from './lib/weir.ts';
import { requireWrk, runWrk, writeScript } from './lib/wrk.ts';

/** Connections of each load generator. */
const CONNECTIONS = 64;
const BODY_BYTES = 1024;
const WARM_UP_SECONDS = 2;
const HOME = 'home';
const TWO = 'two cells';
const FOUR = 'four cells';

export const cells: Scenario = {
  name: 'cells',
  summary: 'events stored at home, in two cells and in four, by processor time',
  defaults: { rounds: 5, seconds: 4 },
  run,
};

interface Place {
  database: Database;
  url: string;
}

interface Window {
  events: number;
  perSecond: number;
  us: ProcessorTime;
  /** Postgres of home alone. */
  homeUs: number;
}

interface Contestant {
  name: string;
  places: Place[];
  windows: Window[];
}

async function run(context: BenchContext): Promise<BenchOutcome> {
  requireWrk();
  const home = await openWeir(context);
  const { secret, weir } = home;
  const script = join(home.directory, 'one.lua');
  writeScript(script, signedRequest(secret, benchBody(BODY_BYTES)));
  const atHome = { database: home.database, url: weir.url };
  const others: Place[] = [];
  for (let number = 1; number <= 4; number++) {
    const { conninfo, database } = await openBenchDatabase(context, { migrated: false });
    const file = join(home.directory, `cell-${number}`);
    writeFileSync(file, conninfo);
    await weir.addCell(file);
    others.push({ database, url: (await weir.addWebhook(number)).url });
  }
  const all: Contestant[] = [
    { name: HOME, places: [atHome], windows: [] },
    { name: TWO, places: others.slice(0, 2), windows: [] },
    { name: FOUR, places: others, windows: [] },
  ];
  await inRounds(context, all, async ({ name, places, windows }) => {
    const window = await measure(context, weir, home.database, places, script);
    windows.push(window);
    const postgres = formatNumber(window.us.postgres);
    return `${name}: ${formatNumber(window.perSecond)} events/s, Postgres ${postgres} us an event`;
  });
  return summarise(all);
}

async function measure(
  { seconds, signal }: BenchContext,
  { processes }: RunningWeir,
  home: Database,
  places: readonly Place[],
  script: string,
): Promise<Window> {
  const send = (length: number) =>
    Promise.all(places.map(({ url }) => runWrk({ url, script, connections: CONNECTIONS, seconds: length }, signal)));
  await send(WARM_UP_SECONDS);
  for (const { database } of places) await settledRows(database, 'events');
  // Home also writes out what it got in its own window before.
  const databases = [...new Set([home, ...places.map(({ database }) => database)])];
  for (const database of databases) await emptyTable(database, 'events');
  const homePids = await postgresPids(home);
  const allPids = (await Promise.all(databases.map(postgresPids))).flat();
  const before = readProcessor(processes, allPids);
  const homeBefore = readProcessor([], homePids);
  const sent = await send(seconds);
  const us = timeBetween(before, readProcessor(processes, allPids));
  const homeUs = timeBetween(homeBefore, readProcessor([], homePids)).postgres;
  const stored = await Promise.all(places.map(({ database }) => settledRows(database, 'events')));
  const events = sent.reduce((sum, { answers2xx }) => sum + answers2xx, 0);
  const lost = sent.reduce((sum, { answersOther, socketErrors }) => sum + answersOther + socketErrors, 0);
  if (lost > 0 || stored.reduce((sum, rows) => sum + rows, 0) < events)
    throw new Error(`${lost} requests failed, ${stored} rows for ${events} responses`);
  for (const part of parts) us[part] /= events;
  const perSecond = sent.reduce((sum, { requestsPerSecond }) => sum + requestsPerSecond, 0);
  return { events, perSecond, us, homeUs: homeUs / events };
}

/** Names of the parts in the table. */
const columns = { eventLoop: 'event loop', signatures: 'signatures', other: 'other', postgres: 'Postgres, all' };

function summarise(all: readonly Contestant[]): BenchOutcome {
  const [home, two, four] = all as [Contestant, Contestant, Contestant];
  const partOf = (part: Part) => (one: Contestant) => one.windows.map(({ us }) => us[part]);
  const homeUs = ({ windows }: Contestant) => windows.map((window) => window.homeUs);
  const { table, measures } = tabulate('processor time per event, us', all, [
    ...parts.map((part) => [columns[part], [part, 'us per event'], partOf(part)] as const),
    ['Postgres, home', ['Postgres of home', 'us per event'], homeUs],
    ['events/s', ['rate', 'events/s'], ({ windows }) => windows.map(({ perSecond }) => perSecond)],
  ]);
  const overHome = (of: Contestant, part: Part) => ratioByRound(partOf(part)(of), partOf(part)(home));
  const [postgres, loop] = [overHome(two, 'postgres'), overHome(four, 'eventLoop')];
  return {
    tables: [table],
    measures,
    ratios: [
      { of: `Postgres of ${TWO}`, to: HOME, values: postgres },
      { of: `event loop with ${FOUR}`, to: HOME, values: loop },
    ],
    goals: [
      below(`Postgres, ${TWO} over ${HOME}:`, postgres, 1.3),
      below(`event loop, ${FOUR} over ${HOME}:`, loop, 1.05),
      below(`Postgres of home for an event of ${TWO}:`, homeUs(two), 0.5, 'us'),
    ],
    notes: [
      `One Weir with one process; ${CONNECTIONS} connections a server (wrk, one thread each, closed loop); all servers, load generators and Weir share the cores.`,
      'Every committed event was counted after its window.',
    ],
  };
}
