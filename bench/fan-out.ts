/**
 * Scenario `fan-out`: cost of agents at ingest. Each event creates one row for each subscribed agent, in the commit of the
 * event.
 *
 *     each round:  no fan-out | no agent | 1 agent | 3 agents     webhooks of one Weir; nothing is claimed
 *     each turn:   warm-up, rows settle, truncate, checkpoint, measured window, rows settle and are counted
 *
 * `no fan-out` is a database without subscriptions, which has no trigger. `no agent` is a webhook without one while others have agents.
 */

import { join } from 'node:path';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import type { Database } from '../server/store/connect/pool.ts';
import { settledRows } from './lib/database.ts';
import type { BenchContext, Outcome, Ratio, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';
import { faultsOf, measureWindow, totalUs, type Window } from './lib/window.ts';
import { requireWrk, writeScript } from './lib/wrk.ts';

const BODY_BYTES = 1024;
const CONNECTIONS = 256;
const AGENTS = [null, 0, 1, 3];

export const fanOut: Scenario = {
  name: 'fan-out',
  summary: 'what each subscribed agent costs on ingest: receiving with 0, 1 and 3 agents',
  defaults: { rounds: 7, seconds: 4 },
  run,
};

interface FanOutWindow extends Window {
  deliveries: number;
}

interface Series {
  /** null: the database has no fan-out trigger. */
  agents: number | null;
  url: string;
  windows: FanOutWindow[];
}

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const { database, directory, secret, weir } = await openWeir(context);
  const script = join(directory, 'request.lua');
  writeScript(script, signedRequest(secret, benchBody(BODY_BYTES)));
  const all: Series[] = [];
  for (const agents of AGENTS) {
    const { id, url } = await weir.addWebhook();
    for (let i = 0; i < (agents ?? 0); i++) await weir.addAgent([id]);
    all.push({ agents, url, windows: [] });
  }

  async function measure({ agents, url }: Series): Promise<FanOutWindow> {
    await setFanOut(database, agents !== null);
    const order = { url, script, processes: weir.processes, table: 'events', alsoEmptied: 'deliveries' };
    const window = await measureWindow(context, database, { ...order, connections: CONNECTIONS });
    return { ...window, deliveries: await settledRows(database, 'deliveries') };
  }

  for (let round = 1; round <= context.rounds; round++)
    for (const series of all) {
      const window = await measure(series);
      series.windows.push(window);
      context.say(
        `round ${round} of ${context.rounds}: ${nameOf(series)}: ${formatNumber(window.requestsPerSecond)} requests/s, ` +
          `p99 ${formatNumber(window.p99Ms)} ms`,
      );
    }
  return summarise(all);
}

/** Removes the trigger, or creates it like a first subscription: the statement adds no subscription, but its own trigger runs. */
async function setFanOut(database: Database, on: boolean): Promise<void> {
  await database.query({
    text: on
      ? 'insert into subscriptions select * from subscriptions limit 0'
      : 'drop trigger if exists events_fan_out on events',
  });
}

function nameOf({ agents }: Series): string {
  if (agents === null) return 'no fan-out';
  return agents === 0 ? 'no agent' : `${agents} ${agents === 1 ? 'agent' : 'agents'}`;
}

const columns: readonly { name: string; unit: string; value: (window: FanOutWindow) => number }[] = [
  { name: 'rate', unit: 'requests/s', value: ({ requestsPerSecond }) => requestsPerSecond },
  { name: 'p50', unit: 'ms', value: ({ p50Ms }) => p50Ms },
  { name: 'p99', unit: 'ms', value: ({ p99Ms }) => p99Ms },
  { name: 'Postgres', unit: 'us', value: ({ us }) => us.postgres },
  { name: 'CPU', unit: 'us', value: totalUs },
];

function summarise(all: readonly Series[]): Outcome {
  const values = (series: Series, column: string) =>
    series.windows.map(columns.find(({ name }) => name === column)!.value);
  const [off, none, one, three] = all as [Series, Series, Series, Series];
  const ratio = (of: Series, to: Series, column: string): Ratio => ({
    of: `${nameOf(of)}, ${column}`,
    to: nameOf(to),
    values: ratioByRound(values(of, column), values(to, column)),
  });
  const pairs = [
    [none, off],
    [one, none],
    [three, none],
  ] as const;
  const rates = pairs.map(([of, to]) => ratio(of, to, 'rate'));
  const costs = pairs.map(([of, to]) => ratio(of, to, 'CPU'));
  const median = (of: Ratio) => spreadOf(of.values).median;
  return {
    tables: [
      {
        header: [`${CONNECTIONS} connections`, ...columns.map(({ name, unit }) => `${name}, ${unit}`)],
        rows: all.map((series) => [nameOf(series), ...columns.map(({ name }) => formatSpread(values(series, name)))]),
      },
    ],
    measures: all.flatMap((series) =>
      columns.map(({ name, unit }) => ({ name: `${nameOf(series)}: ${name}`, unit, values: values(series, name) })),
    ),
    ratios: [...rates, ...costs, ...pairs.map(([of, to]) => ratio(of, to, 'Postgres'))],
    goals: [
      { what: 'requests/s without an agent over no fan-out:', value: median(rates[0]!), unit: '', atLeast: 0.98 },
      { what: 'CPU without an agent over no fan-out:', value: median(costs[0]!), unit: '', below: 1.02 },
      { what: 'requests/s with 1 agent over none:', value: median(rates[1]!), unit: '', atLeast: 0.8 },
      { what: 'CPU with 1 agent over none:', value: median(costs[1]!), unit: '', below: 1.2 },
    ],
    notes: [
      'One Weir with 1 process. Load generator (wrk, one thread, closed loop), Weir and Postgres share the cores.',
      'CPU is the processor time of Weir and Postgres for an event. No agent claims. Every delivery was counted after its window.',
    ],
    faults: all.flatMap((series) => series.windows.flatMap((window) => faultsIn(series, window))),
  };
}

function faultsIn(series: Series, window: FanOutWindow): string[] {
  const name = nameOf(series);
  const { rows, deliveries } = window;
  return [
    ...faultsOf(name, window),
    ...(deliveries !== rows! * (series.agents ?? 0) ? [`${name}: ${deliveries} deliveries for ${rows} events`] : []),
  ];
}
