/**
 * Scenario `fan-out`: cost of agents at ingest. Each event creates one row for each subscribed agent, in the commit of the
 * event.
 *
 *     each round:  no agent | 1 agent | 3 agents     three webhooks of one Weir; nothing is claimed
 *     each turn:   warm-up, rows settle, truncate, checkpoint, measured window, rows settle and are counted
 */

import { join } from 'node:path';
import { benchBody, emptyTable, signedRequest } from '../server/cli/bench/ground.ts';
import { settledRows } from './lib/database.ts';
import type { BenchContext, Outcome, Ratio, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';
import { requireWrk, runWrk, type WrkWindow, writeScript } from './lib/wrk.ts';

const BODY_BYTES = 1024;
const CONNECTIONS = 256;
const AGENTS = [0, 1, 3];
const WARM_UP_SECONDS = 1;

export const fanOut: Scenario = {
  name: 'fan-out',
  summary: 'what each subscribed agent costs on ingest: receiving with 0, 1 and 3 agents',
  defaults: { rounds: 7, seconds: 4 },
  run,
};

interface Window extends WrkWindow {
  events: number;
  deliveries: number;
}

interface Series {
  agents: number;
  url: string;
  windows: Window[];
}

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const { database, directory, secret, weir } = await openWeir(context);
  const script = join(directory, 'request.lua');
  writeScript(script, signedRequest(secret, benchBody(BODY_BYTES)));
  const all: Series[] = [];
  for (const agents of AGENTS) {
    const { id, url } = await weir.addWebhook();
    for (let i = 0; i < agents; i++) await weir.addAgent([id]);
    all.push({ agents, url, windows: [] });
  }

  async function measure(url: string): Promise<Window> {
    const load = (seconds: number) => runWrk({ url, script, connections: CONNECTIONS, seconds }, context.signal);
    await load(WARM_UP_SECONDS);
    await settledRows(database, 'events');
    await emptyTable(database, 'events, deliveries');
    const window = await load(context.seconds);
    const events = await settledRows(database, 'events');
    return { ...window, events, deliveries: await settledRows(database, 'deliveries') };
  }

  for (let round = 1; round <= context.rounds; round++)
    for (const series of all) {
      const window = await measure(series.url);
      series.windows.push(window);
      context.say(
        `round ${round} of ${context.rounds}: ${nameOf(series)}: ${formatNumber(window.requestsPerSecond)} requests/s, ` +
          `p99 ${formatNumber(window.p99Ms)} ms`,
      );
    }
  return summarise(all);
}

function nameOf({ agents }: Series): string {
  return agents === 0 ? 'no agent' : `${agents} ${agents === 1 ? 'agent' : 'agents'}`;
}

function summarise(all: readonly Series[]): Outcome {
  const values = ({ windows }: Series, key: keyof Window) => windows.map((window) => window[key]);
  const [none, ...some] = all as [Series, ...Series[]];
  const ratios = some.map(
    (series): Ratio => ({
      of: nameOf(series),
      to: nameOf(none),
      values: ratioByRound(values(series, 'requestsPerSecond'), values(none, 'requestsPerSecond')),
    }),
  );
  return {
    tables: [
      {
        header: [`${CONNECTIONS} connections`, 'requests/s', 'p50 ms', 'p99 ms'],
        rows: all.map((series) => [
          nameOf(series),
          ...(['requestsPerSecond', 'p50Ms', 'p99Ms'] as const).map((key) => formatSpread(values(series, key))),
        ]),
      },
    ],
    measures: all.flatMap((series) => [
      { name: `${nameOf(series)}: rate`, unit: 'requests/s', values: values(series, 'requestsPerSecond') },
      { name: `${nameOf(series)}: p50`, unit: 'ms', values: values(series, 'p50Ms') },
      { name: `${nameOf(series)}: p99`, unit: 'ms', values: values(series, 'p99Ms') },
    ]),
    ratios,
    goals: [
      {
        what: 'requests/s with 1 agent over none:',
        value: spreadOf(ratios[0]!.values).median,
        unit: '',
        atLeast: 0.65,
      },
    ],
    notes: [
      'One Weir with 1 process and three webhooks. Load generator (wrk, one thread, closed loop), Weir and Postgres share the cores.',
      'No agent claims. Every delivery was counted after its window.',
    ],
    faults: all.flatMap((series) => series.windows.flatMap((window) => faultsOf(series, window))),
  };
}

function faultsOf(series: Series, { answersOther, answers2xx, socketErrors, events, deliveries }: Window): string[] {
  const name = nameOf(series);
  return [
    ...(answers2xx === 0 ? [`${name}: there was no response`] : []),
    ...(answersOther > 0 ? [`${name}: ${answersOther} responses were not 2xx`] : []),
    ...(socketErrors > 0 ? [`${name}: ${socketErrors} socket errors or timeouts`] : []),
    ...(events < answers2xx ? [`${name}: ${events} events for ${answers2xx} responses`] : []),
    ...(deliveries !== events * series.agents ? [`${name}: ${deliveries} deliveries for ${events} events`] : []),
  ];
}
