/**
 * Scenario `cells`: one event stored at home, in one of two cells, and in one of four, each on a Postgres server of its own. The load on each server is
 * the same, so that batches have the same size: what cells cost is processor time, since all servers share this machine.
 *
 *     each round:  home | two cells | four cells     one load generator a server, one Weir with one process
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { benchBody, emptyTable, signedRequest } from '../server/operate/load/environment.ts';
import { type Part, parts, readProcessor, timeBetween } from '../server/operate/load/processor.ts';
import type { Database } from '../server/store/connect/pool.ts';
import { openBenchDatabase, postgresPids, settledRows } from './lib/database.ts';
import { type BenchContext, below, inRounds, type Outcome, type Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir, type Webhook } from './lib/weir.ts';
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
  webhook: Webhook;
}

interface Window {
  events: number;
  perSecond: number;
  us: Record<Part, number>;
  /** Postgres of home alone. */
  homeUs: number;
}

interface Contestant {
  name: string;
  places: Place[];
  windows: Window[];
}

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const home = await openWeir(context);
  const { secret, weir } = home;
  const script = join(home.directory, 'one.lua');
  writeScript(script, signedRequest(secret, benchBody(BODY_BYTES)));
  const atHome = { database: home.database, webhook: { id: weir.url.split('/').at(-1)!, url: weir.url } };
  const others: Place[] = [];
  for (let number = 1; number <= 4; number++) {
    const { conninfo, database } = await openBenchDatabase(context, { migrated: false });
    const file = join(home.directory, `cell-${number}`);
    writeFileSync(file, conninfo);
    await weir.addCell(file);
    others.push({ database, webhook: await weir.addWebhook(number) });
  }
  const all: Contestant[] = [
    { name: HOME, places: [atHome], windows: [] },
    { name: TWO, places: others.slice(0, 2), windows: [] },
    { name: FOUR, places: others, windows: [] },
  ];
  await inRounds(context, all, async ({ name, places, windows }) => {
    const window = await measure(context, weir.processes, home.database, places, script);
    windows.push(window);
    const postgres = formatNumber(window.us.postgres);
    return `${name}: ${formatNumber(window.perSecond)} events/s, Postgres ${postgres} us an event`;
  });
  return summarise(all);
}

async function measure(
  { seconds, signal }: BenchContext,
  processes: readonly number[],
  home: Database,
  places: readonly Place[],
  script: string,
): Promise<Window> {
  const send = (length: number) =>
    Promise.all(
      places.map(({ webhook: { url } }) => runWrk({ url, script, connections: CONNECTIONS, seconds: length }, signal)),
    );
  await send(WARM_UP_SECONDS);
  for (const { database } of places) await settledRows(database, 'events');
  // Home also writes out what it got in its own window before.
  for (const database of new Set([home, ...places.map((place) => place.database)]))
    await emptyTable(database, 'events');
  const homePids = await postgresPids(home);
  const databasePids = (await Promise.all(places.map(({ database }) => postgresPids(database)))).flat();
  const before = readProcessor(processes, [...new Set([...homePids, ...databasePids])]);
  const homeBefore = readProcessor([], homePids);
  const sent = await send(seconds);
  const us = timeBetween(before, readProcessor(processes, [...new Set([...homePids, ...databasePids])]));
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

function summarise(all: readonly Contestant[]): Outcome {
  const values = ({ windows }: Contestant, of: (window: Window) => number) => windows.map(of);
  const [home, two, four] = all as [Contestant, Contestant, Contestant];
  const postgres = (window: Window) => window.us.postgres;
  const loop = (window: Window) => window.us.eventLoop;
  const ratio = (of: Contestant, value: (window: Window) => number) =>
    ratioByRound(values(of, value), values(home, value));
  return {
    tables: [
      {
        header: [
          'processor time per event, us',
          ...parts.map((part) => (part === 'eventLoop' ? 'event loop' : part === 'postgres' ? 'Postgres, all' : part)),
          'Postgres, home',
          'events/s',
        ],
        rows: all.map((each) => [
          each.name,
          ...parts.map((part) => formatNumber(spreadOf(values(each, ({ us }) => us[part])).median)),
          formatSpread(values(each, ({ homeUs }) => homeUs)),
          formatSpread(values(each, ({ perSecond }) => perSecond)),
        ]),
      },
    ],
    measures: all.flatMap((each) => [
      ...parts.map((part) => ({
        name: `${each.name}: ${part}`,
        unit: 'us per event',
        values: values(each, ({ us }) => us[part]),
      })),
      { name: `${each.name}: Postgres of home`, unit: 'us per event', values: values(each, ({ homeUs }) => homeUs) },
      { name: `${each.name}: rate`, unit: 'events/s', values: values(each, ({ perSecond }) => perSecond) },
    ]),
    ratios: [
      { of: `Postgres of ${TWO}`, to: HOME, values: ratio(two, postgres) },
      { of: `event loop with ${FOUR}`, to: HOME, values: ratio(four, loop) },
    ],
    goals: [
      below(`Postgres, ${TWO} over ${HOME}:`, ratio(two, postgres), 1.3),
      below(`event loop, ${FOUR} over ${HOME}:`, ratio(four, loop), 1.05),
      below(
        `Postgres of home for an event of ${TWO}:`,
        values(two, ({ homeUs }) => homeUs),
        0.5,
        'us',
      ),
    ],
    notes: [
      `One Weir with one process; ${CONNECTIONS} connections a server (wrk, one thread each, closed loop); all servers, load generators and Weir share the cores.`,
      'Every committed event was counted after its window.',
    ],
  };
}
