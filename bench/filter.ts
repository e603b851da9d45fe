/**
 * Scenario `filter`: what the filter of a subscription costs, at ingest and in claims.
 *
 *     each round:  receiving with an agent: without a filter | with one     the first of the two takes turns
 *     then, in the first rounds, for each filter:
 *                  100,000 pending deliveries, of which 1 % pass, claimed by 10 until all are judged; what is claimed is acked
 */
import { join } from 'node:path';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import type { Database } from '../server/store/connect/pool.ts';
import { type AgentClient, openAgent } from './lib/agent.ts';
import { type Backlog, countInState, renewDeliveries, storeEvents } from './lib/backlog.ts';
import type { BenchContext, Measure, Outcome, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, percentile, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';
import { faultsOf, measureWindow, totalUs, type Window } from './lib/window.ts';
import { requireWrk, writeScript } from './lib/wrk.ts';

const BODY_BYTES = 1024;
const CONNECTIONS = 256;
const STORED = 100_000;
const CLAIM_SIZE = 10;
/** A drain takes a minute or two on a loaded machine. */
const DRAINS_MAX = 2;
/** The bodies begin with random hexadecimal digits: 1 % of them are below this text. */
const BELOW = '028f5c';
const FILTERS = ['event_type == "wanted"', `body.data < "${BELOW}"`];
const PLAIN = 'without a filter';
const FILTERED = 'with a filter';

export const filter: Scenario = {
  name: 'filter',
  summary: 'filters of subscriptions: receiving, and claims through 100,000 deliveries of which 1 % pass',
  defaults: { rounds: 7, seconds: 4 },
  run,
};

interface Ingest {
  name: typeof PLAIN | typeof FILTERED;
  url: string;
  windows: Window[];
}

interface Drain {
  filter: string;
  claims: number[];
  medianMs: number[];
  p99Ms: number[];
  largestMs: number[];
}

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const { database, directory, secret, weir } = await openWeir(context);
  const script = join(directory, 'request.lua');
  writeScript(script, signedRequest(secret, benchBody(BODY_BYTES)));
  const [plain, filtered] = [await weir.addWebhook(), await weir.addWebhook()];
  await weir.addAgent([plain.id]);
  const agent = await weir.addAgent([filtered.id]);
  await weir.setFilter(agent.id, filtered.id, FILTERS[0]!);
  const ingests: Ingest[] = [
    { name: PLAIN, url: plain.url, windows: [] },
    { name: FILTERED, url: filtered.url, windows: [] },
  ];
  const order = { script, processes: weir.processes, table: 'events', alsoEmptied: 'deliveries' };
  for (let round = 1; round <= context.rounds; round++)
    for (const { name, url, windows } of round % 2 === 1 ? ingests : ingests.toReversed()) {
      const window = await measureWindow(context, database, { ...order, url, connections: CONNECTIONS });
      windows.push(window);
      context.say(
        `round ${round} of ${context.rounds}: ${name}: ${formatNumber(window.requestsPerSecond)} requests/s, ` +
          `${formatNumber(totalUs(window))} us`,
      );
    }

  await database.query({ text: 'truncate events, deliveries' });
  context.say(`storing ${formatNumber(STORED)} events`);
  const backlog: Backlog = { webhookId: filtered.id, agentId: agent.id, rows: STORED, bodyBytes: BODY_BYTES };
  await storeEvents(database, backlog);
  const wanted = await markWanted(database);
  const consumer = await openAgent(weir.origin, agent.credential);
  context.undo(() => consumer.close());
  const drains: Drain[] = FILTERS.map((text) => ({ filter: text, claims: [], medianMs: [], p99Ms: [], largestMs: [] }));
  const faults: string[] = [];
  for (let round = 1; round <= Math.min(DRAINS_MAX, context.rounds); round++)
    for (const drain of drains) {
      await weir.setFilter(agent.id, filtered.id, drain.filter);
      await renewDeliveries(database, backlog);
      const { ms, empty } = await claimAll(database, consumer, context.signal);
      drain.claims.push(ms.length);
      drain.medianMs.push(percentile(ms, 0.5));
      drain.p99Ms.push(percentile(ms, 0.99));
      drain.largestMs.push(Math.max(...ms));
      if (empty > 0) faults.push(`${drain.filter}: ${empty} claims were empty before all deliveries were judged`);
      const done = await countInState(database, 'done');
      if (done !== wanted) faults.push(`${drain.filter}: ${done} deliveries were claimed, and ${wanted} pass`);
      context.say(
        `drain ${round}: ${drain.filter}: ${ms.length} claims, median ${formatNumber(drain.medianMs.at(-1)!)} ms, ` +
          `largest ${formatNumber(drain.largestMs.at(-1)!)} ms`,
      );
    }
  return summarise(ingests, drains, faults);
}

/** Gives the events that the second filter passes the type that the first one passes. Returns their number. */
async function markWanted(database: Database): Promise<number> {
  const rows = await database.query({
    text: `update events set event_type = 'wanted'
           where (convert_from(body, 'UTF8')::json->>'data') collate "C" < '${BELOW}' returning 1`,
  });
  await database.query({ text: 'vacuum analyze events' });
  return rows.length;
}

/** Claims and acks until no delivery is pending. `ms`: duration of each claim. `empty`: claims before the end that got nothing. */
async function claimAll(database: Database, consumer: AgentClient, signal: AbortSignal) {
  const ms: number[] = [];
  let empty = 0;
  for (;;) {
    signal.throwIfAborted();
    const startMs = performance.now();
    const deliveries = await consumer.claim({ max: CLAIM_SIZE, waitSeconds: 0 });
    ms.push(performance.now() - startMs);
    if (deliveries.length > 0) await consumer.ack(deliveries);
    else if ((await countInState(database, 'pending')) === 0) return { ms, empty };
    else empty++;
  }
}

function summarise(ingests: readonly Ingest[], drains: readonly Drain[], faults: readonly string[]): Outcome {
  const [plain, filtered] = ingests as [Ingest, Ingest];
  const columns: readonly { name: string; unit: string; value: (window: Window) => number }[] = [
    { name: 'rate', unit: 'requests/s', value: ({ requestsPerSecond }) => requestsPerSecond },
    { name: 'p99', unit: 'ms', value: ({ p99Ms }) => p99Ms },
    { name: 'Postgres', unit: 'us', value: ({ us }) => us.postgres },
    { name: 'CPU', unit: 'us', value: totalUs },
  ];
  const ratios = columns.map(({ name, value }) => ({
    of: `${FILTERED}, ${name}`,
    to: PLAIN,
    values: ratioByRound(filtered.windows.map(value), plain.windows.map(value)),
  }));
  const measuresOf = ({ filter: name, claims, medianMs, p99Ms, largestMs }: Drain): Measure[] => [
    { name: `${name}: claims`, unit: '', values: claims },
    { name: `${name}: median`, unit: 'ms', values: medianMs },
    { name: `${name}: p99`, unit: 'ms', values: p99Ms },
    { name: `${name}: largest`, unit: 'ms', values: largestMs },
  ];
  return {
    tables: [
      {
        header: [`${CONNECTIONS} connections`, ...columns.map(({ name, unit }) => `${name}, ${unit}`)],
        rows: ingests.map(({ name, windows }) => [
          name,
          ...columns.map(({ value }) => formatSpread(windows.map(value))),
        ]),
      },
      {
        header: ['filter', `claims of ${CLAIM_SIZE}`, 'median ms', 'p99 ms', 'largest ms'],
        rows: drains.map((drain) => [
          `\`${drain.filter}\``,
          ...measuresOf(drain).map(({ values }) => formatSpread(values)),
        ]),
      },
    ],
    measures: [
      ...ingests.flatMap(({ name, windows }) =>
        columns.map((column) => ({
          name: `${name}: ${column.name}`,
          unit: column.unit,
          values: windows.map(column.value),
        })),
      ),
      ...drains.flatMap(measuresOf),
    ],
    ratios,
    goals: [
      {
        what: `requests/s ${FILTERED} over ${PLAIN}:`,
        value: spreadOf(ratios[0]!.values).median,
        unit: '',
        atLeast: 0.98,
      },
      ...drains.map((drain) => ({
        what: `largest claim, ${drain.filter}:`,
        value: spreadOf(drain.largestMs).median,
        unit: 'ms',
        below: 1_000,
      })),
    ],
    notes: [
      'One Weir with 1 process. Load generator (wrk, one thread, closed loop), Weir and Postgres share the cores. While it receives, no agent claims.',
      `${STORED.toLocaleString('en-GB')} pending deliveries of 1 KiB of which 1 % pass; one consumer claims up to ${CLAIM_SIZE}, acks, and claims again until all are judged.`,
    ],
    faults: [...faults, ...ingests.flatMap(({ name, windows }) => windows.flatMap((window) => faultsOf(name, window)))],
  };
}
