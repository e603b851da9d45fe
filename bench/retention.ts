/**
 * Scenario `retention`: full ingest while maintenance removes what has expired, compared with ingest before that.
 *
 *     each round:  start | a window | a window that begins with the first maintenance, a minute after the start
 *
 * Each start has a RETENTION_DAYS that is two days lower than the one before, so every maintenance drops two days of events with their
 * deliveries. It also deletes the history of one hour and dedupe keys. An agent claims and acknowledges in both windows.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../server/base/command/io.ts';
import { createCredential } from '../server/model/credential.ts';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import type { Database } from '../server/store/connect/pool.ts';
import { type AgentClient, type Delivery, openAgent } from './lib/agent.ts';
import { FILL_TIMEOUT_MS } from './lib/backlog.ts';
import { type BenchDatabase, logSlowStatements, openBenchDatabase, slowStatements } from './lib/database.ts';
import { addFirst, fillInstallation } from './lib/installation.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';
import { startWeir } from './lib/weir.ts';
import { faultsOf, measureWindow, totalUs, type Window } from './lib/window.ts';
import { requireWrk, writeScript } from './lib/wrk.ts';

const EVENTS = 1_000_000;
const SIZE = { webhooks: 100_000, agents: 10_000, subscriptions: 50_000, ofFirstAgent: null, bodyBytes: 1024 };
/** One of so many deliveries is pending. */
const PENDING = 20;
const KEYS = 500_000;
const DAYS_KEPT = 2;
const DAYS_DROPPED = 2;
const BODY_BYTES = 1024;
const CONNECTIONS = 256;
const SECRET = 'a secret of the webhook';
const CLAIM_MAX = 100;
const CLAIM_EVERY_MS = 50;
/** When the first maintenance starts. */
const MAINTENANCE_MS = 60_000;
/** From the order of a window to its start: warm-up and checkpoint. */
const BEFORE_WINDOW_MS = 4_000;
const MAINTENANCE_MAX_MS = 600_000;
const STATEMENT_MS = 1_000;

export const retention: Scenario = {
  name: 'retention',
  summary: 'receiving while maintenance removes expired days, history and keys, beside receiving before it',
  defaults: { rounds: 3, seconds: 20 },
  run,
};

type Measured = Window & { claimMs: number };

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const { events = EVENTS, rounds } = context;
  const days = DAYS_KEPT + rounds * DAYS_DROPPED;
  const bench = await openBenchDatabase(context);
  const first = await addFirst(bench.database, createCredential('wa'));
  const pending = (events * SIZE.subscriptions) / SIZE.webhooks / PENDING;
  await fillInstallation(context, bench.database, { ...SIZE, events, pending, days }, first);
  const [before, beside]: Measured[][] = [[], []];
  const tookS: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    await logSlowStatements(bench, -1);
    await addExpired(bench.database);
    await logSlowStatements(bench, STATEMENT_MS);
    const measured = await measureRound(context, bench, round, days - round * DAYS_DROPPED);
    before!.push(measured.before);
    beside!.push(measured.beside);
    tookS.push(measured.tookS);
  }
  const slow = await slowStatements(bench);
  for (const line of slow) context.say(line);
  return summarise({ before: before!, beside: beside!, tookS, slow: slow.length, events });
}

/** What one hour of requests to every webhook leaves, and keys, all of it expired. */
async function addExpired({ query }: Database): Promise<void> {
  const run = (text: string) => query({ text, timeoutMs: FILL_TIMEOUT_MS });
  for (const [step, spans] of [
    [60, 60],
    [900, 4],
  ] as const)
    for (let i = 0; i < spans; i++)
      await run(
        `insert into history (webhook_id, step, at, accepted, bytes, duplicates, rejected, limited, disabled, length_required, too_large, unavailable)
         select id, ${step}, date_trunc('hour', now()) - interval '50 hours' + interval '${i * step} seconds', 1, 20, 0, 0, 0, 0, 0, 0, 0 from webhooks`,
      );
  await run(
    `insert into latency (subject_id, step, at, stage, bucket, count)
     select id, 3600, date_trunc('hour', now()) - interval '50 hours', stage, bucket, 1
     from webhooks, generate_series(0, 2) stage, generate_series(8, 11) bucket`,
  );
  await run(
    `insert into dedupe_keys (webhook_id, key, event_id, expires_at)
     select $$00000000-0000-0000-0000-000000000001$$, sha256(i::text::bytea), gen_random_uuid(), now() - interval '1 minute' from generate_series(1, ${KEYS}) i`,
  );
  for (const table of ['history', 'latency', 'dedupe_keys']) await run(`vacuum analyze ${table}`);
}

async function measureRound(context: BenchContext, bench: BenchDatabase, round: number, retentionDays: number) {
  const directory = join(bench.directory, `round-${round}`);
  await mkdir(directory, { mode: 0o711 });
  const settings = { RETENTION_DAYS: String(retentionDays) };
  const weir = await startWeir({ ...bench, directory, processes: 1, secret: SECRET, settings });
  const startedMs = Date.now();
  try {
    const { id, url } = await weir.addWebhook();
    const client = await openAgent(weir.origin, (await weir.addAgent([id])).credential);
    const script = join(directory, 'request.lua');
    writeScript(script, signedRequest(SECRET, benchBody(BODY_BYTES)));
    const measure = async (name: string): Promise<Measured> => {
      const claiming = claimRepeatedly(client);
      const order = {
        url,
        script,
        processes: weir.processes,
        table: 'events',
        empties: false,
        connections: CONNECTIONS,
      };
      const window = await measureWindow(context, bench.database, order);
      const claimMs = await claiming.stop();
      context.say(
        `round ${round} of ${context.rounds}: ${name}: ${formatNumber(window.requestsPerSecond)} requests/s, p99 ${formatNumber(window.p99Ms)} ms, ` +
          `longest ${formatNumber(window.maxMs)} ms, ${formatNumber(totalUs(window))} us, of which Postgres ${formatNumber(window.us.postgres)}, longest claim ${formatNumber(claimMs)} ms`,
      );
      return { ...window, claimMs };
    };
    const before = await measure('before');
    const waitMs = startedMs + MAINTENANCE_MS - BEFORE_WINDOW_MS - Date.now();
    if (waitMs < 0) throw new CommandError('the first window ended after the start of maintenance: use fewer seconds');
    await delay(waitMs, undefined, { signal: context.signal });
    const beside = await measure('beside maintenance');
    const tookS = await maintenanceEnd(context, weir.metricsUrl, startedMs + MAINTENANCE_MS);
    context.say(`round ${round} of ${context.rounds}: maintenance took ${tookS} s`);
    client.close();
    return { before, beside, tookS };
  } finally {
    await weir.stop();
  }
}

/** Claims until it is stopped, which resolves with the time of the longest claim. */
function claimRepeatedly(client: AgentClient): { stop: () => Promise<number> } {
  let stopped = false;
  const work = async () => {
    let longestMs = 0;
    let ack: Delivery[] = [];
    while (!stopped) {
      const startMs = performance.now();
      ack = await client.claim({ max: CLAIM_MAX, waitSeconds: 0, ack });
      longestMs = Math.max(longestMs, performance.now() - startMs);
      await delay(CLAIM_EVERY_MS);
    }
    if (ack.length > 0) await client.ack(ack);
    return longestMs;
  };
  const done = work();
  return {
    stop: () => {
      stopped = true;
      return done;
    },
  };
}

/** Waits for the end of the first maintenance. Resolves with its seconds. */
async function maintenanceEnd(context: BenchContext, metricsUrl: string, fromMs: number): Promise<number> {
  for (;;) {
    const page = await (await fetch(metricsUrl)).text();
    const ended = Number(/^weir_maintenance_timestamp_seconds (\d+)$/m.exec(page)?.[1] ?? 0);
    if (ended * 1000 >= fromMs) return ended - Math.floor(fromMs / 1000);
    if (Date.now() > fromMs + MAINTENANCE_MAX_MS) return Number.POSITIVE_INFINITY;
    await delay(500, undefined, { signal: context.signal });
  }
}

interface Result {
  before: readonly Measured[];
  beside: readonly Measured[];
  tookS: readonly number[];
  slow: number;
  events: number;
}

function summarise({ before, beside, tookS, slow, events }: Result): Outcome {
  const names = ['before maintenance', 'beside maintenance'] as const;
  const columns: readonly { name: string; unit: string; value: (window: Measured) => number }[] = [
    { name: 'rate', unit: 'requests/s', value: ({ requestsPerSecond }) => requestsPerSecond },
    { name: 'p99', unit: 'ms', value: ({ p99Ms }) => p99Ms },
    { name: 'longest answer', unit: 'ms', value: ({ maxMs }) => maxMs },
    { name: 'longest claim', unit: 'ms', value: ({ claimMs }) => claimMs },
    { name: 'Postgres', unit: 'us', value: ({ us }) => us.postgres },
    { name: 'CPU', unit: 'us', value: totalUs },
  ];
  const both = [before, beside];
  const ratios = columns.map(({ name, value }) => ({
    of: `${names[1]}, ${name}`,
    to: names[0],
    values: ratioByRound(beside.map(value), before.map(value)),
  }));
  const longest = (value: (window: Measured) => number) => Math.max(...beside.map(value));
  return {
    tables: [
      {
        header: [`${CONNECTIONS} connections`, ...columns.map(({ name, unit }) => `${name}, ${unit}`)],
        rows: both.map((windows, i) => [names[i]!, ...columns.map(({ value }) => formatSpread(windows.map(value)))]),
      },
    ],
    measures: both.flatMap((windows, i) =>
      columns.map(({ name, unit, value }) => ({ name: `${names[i]}: ${name}`, unit, values: windows.map(value) })),
    ),
    ratios,
    goals: [
      { what: 'requests/s, beside over before:', value: spreadOf(ratios[0]!.values).median, unit: '', atLeast: 0.9 },
      { what: 'longest answer:', value: longest(({ maxMs }) => maxMs), unit: 'ms', below: 1_000 },
      { what: 'longest claim:', value: longest(({ claimMs }) => claimMs), unit: 'ms', below: 1_000 },
      { what: `statements above ${STATEMENT_MS} ms:`, value: slow, unit: '', below: 1 },
    ],
    notes: [
      `${formatNumber(events)} events; maintenance took ${formatSpread(tookS)} s. Load generator, agent, Weir with 1 process and Postgres share the cores.`,
    ],
    faults: [
      ...both.flatMap((windows, i) => windows.flatMap((window) => faultsOf(names[i]!, window))),
      ...(tookS.every(Number.isFinite) ? [] : ['maintenance did not end: the log of Weir has the reason']),
    ],
  };
}
