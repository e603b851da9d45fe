/**
 * Scenario `breadth`: a Weir with 100,000 webhooks, 10,000 agents and 50,000 subscriptions, 4,000,000 events of 30 days and 1,000,000 pending
 * deliveries, beside an empty one.
 *
 *     first:       starts of both in turns
 *     each round:  ingest: empty | one webhook | all webhooks in turns, claims: empty | 4 webhooks | 10,000 webhooks, pages and metrics
 *     last:        both without requests
 *
 * Postgres logs each statement that takes longer than a second, also those of maintenance and alerts.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createCredential } from '../server/model/credential.ts';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import { residentBytes } from '../server/operate/primary/memory-guard.ts';
import { openBenchAgent } from './lib/agent.ts';
import { type BenchDatabase, countSlowStatements, logSlowStatements, openBenchDatabase } from './lib/database.ts';
import { addFirst, addSecrets, fillInstallation } from './lib/installation.ts';
import { LOOKS, Looks, lookWith, measureRest, placesOf, reportLooks } from './lib/looks.ts';
import { atLeast, type BenchContext, type BenchOutcome, below, type Scenario, tabulate } from './lib/outcome.ts';
import { formatNumber, ratioByRound, spreadOf } from './lib/stats.ts';
import { type RunningWeir, startWeir } from './lib/weir.ts';
import { keptTable, type LoadWindow, measureLoad, totalUs, windowFaults } from './lib/window.ts';
import { requireWrk, writeScript } from './lib/wrk.ts';

const SIZE = {
  webhooks: 100_000,
  agents: 10_000,
  subscriptions: 50_000,
  ofFirstAgent: 10_000,
  pending: 1_000_000,
  days: 30,
};
const EVENTS = 4_000_000;
const BODY_BYTES = 1024;
const CONNECTIONS = 256;
/** Webhooks of the installation have the common limit. */
const SETTINGS = { RATE_LIMIT_INGEST_MAX: '1000000000' };
/** Counts of many webhooks are written once a minute: a shorter window may miss them, or have those of more than its own events. */
const IN_TURNS_SECONDS = 60;
const CLAIMS = 20;
/** The first maintenance is over, and most connections of the pools are closed. */
const SETTLE_MS = 70_000;
const IDLE_MS = 60_000;
const PAGE_MS = 100;
const STATEMENT_MS = 1_000;

export const breadth: Scenario = {
  name: 'breadth',
  summary: '100,000 webhooks, 10,000 agents, 4,000,000 events (--events N) and 1,000,000 pending, beside an empty Weir',
  defaults: { rounds: 3, seconds: 5 },
  run,
};

interface Server {
  name: string;
  bench: BenchDatabase;
  weir: RunningWeir;
  startMs: number[];
  startMb: number[];
  /** After the loads. */
  loadedMb: number;
}

/** What was measured. Each list begins with the empty Weir. */
interface Measured {
  /** What was filled, as a sentence. */
  size: string;
  servers: readonly Server[];
  loads: readonly { name: string; windows: readonly LoadWindow[] }[];
  clients: readonly { name: string; looks: Looks }[];
  looks: Looks;
  rest: BenchOutcome['tables'][number];
  slow: number;
}

async function run(context: BenchContext): Promise<BenchOutcome> {
  requireWrk();
  const events = context.events ?? EVENTS;
  const bench = await openBenchDatabase(context);
  const [wide, narrow] = [createCredential('wa'), createCredential('wa')];
  const first = await addFirst(bench.database, wide);
  const beganMs = performance.now();
  await fillInstallation(context, bench.database, { ...SIZE, events }, first);
  await addSecrets(bench);
  const filledS = (performance.now() - beganMs) / 1000;
  const [other] = await bench.database.query<{ id: string; webhookId: string }>({
    text: `update agents a set lookup_id = $2, secret_hash = $3
           from (select agent_id, webhook_id from subscriptions where agent_id <> $1 limit 1) s
           where a.id = s.agent_id returning a.id, s.webhook_id as "webhookId"`,
    values: [first.agentId, narrow.lookupId, narrow.secretHash],
  });
  await logSlowStatements(bench, STATEMENT_MS);
  const { secret } = bench;
  const empty = await startInTurns(context, 'empty', { ...(await openBenchDatabase(context)), secret });
  const full = await startInTurns(context, 'full', bench);

  const inRandomOrder = `select id from webhooks where name like 'volume %' order by random()`;
  const allIds = (await bench.database.query<{ id: string }>({ text: inRandomOrder })).map(({ id }) => id);
  const request = signedRequest(secret, benchBody(BODY_BYTES));
  const emptyAgent = await addAgentOf(empty);
  const loads = [
    { name: 'empty: one webhook', server: empty, ids: [emptyAgent.webhookId], seconds: context.seconds },
    { name: 'full: one webhook', server: full, ids: [other!.webhookId], seconds: context.seconds },
    { name: 'full: all webhooks in turns', server: full, ids: allIds, seconds: IN_TURNS_SECONDS },
  ].map(({ ids, ...load }, i) => {
    const script = join(bench.directory, `${i}.lua`);
    const paths = ids.map((id) => `/in/${id}`);
    writeScript(script, request, paths);
    return { ...load, script, windows: [] as LoadWindow[] };
  });
  const openClient = async (name: string, { bench, weir }: Server, credential: string) => {
    const client = await openBenchAgent(weir.origin, credential);
    context.undo(() => client.close());
    return { name, client, looks: new Looks(bench.database, weir.processes) };
  };
  const clients = [
    await openClient('empty: claim of 100, with its ack', empty, emptyAgent.credential),
    await openClient('claim of 100, with its ack, of 4 webhooks', full, narrow.text),
    await openClient('claim of 100, with its ack, of 10,000 webhooks', full, wide.text),
  ];
  const looks = new Looks(bench.database, [full.weir.pid, ...full.weir.processes]);
  const look = lookWith(full.weir.origin, await full.weir.addToken());
  const places = placesOf(allIds[Math.floor(allIds.length / 2)]!, [other!.id, first.agentId]);

  for (let round = 1; round <= context.rounds; round++) {
    for (const { name, server, windows, script, seconds } of loads) {
      const { origin: url, processes } = server.weir;
      const store = keptTable(server.bench.database, 'events');
      const order = { url, script, processes, store, connections: CONNECTIONS };
      const window = await measureLoad({ ...context, seconds }, server.bench.database, order);
      windows.push(window);
      context.say(
        `${name}: ${formatNumber(window.requestsPerSecond)} requests/s, ${formatNumber(totalUs(window))} us, Postgres ${formatNumber(window.us.postgres)}`,
      );
    }
    for (const { name, client, looks } of clients) await looks.timeClaims(name, client, CLAIMS);
    await looks.timePlaces(places, look, context.signal);
    for (let i = 0; i < LOOKS; i++) {
      await delay(1_000);
      await looks.time('/metrics', async () => (await fetch(full.weir.metricsUrl)).text());
    }
    context.say(`round ${round} of ${context.rounds}: slowest: ${looks.slowest.join(' ms ')}`);
  }
  const servers = [empty, full];
  for (const server of servers) server.loadedMb = megabytesOf(server.weir);
  await delay(SETTLE_MS, undefined, { signal: context.signal });
  const rest = await measureRest(servers, IDLE_MS, context.signal);
  const slow = await countSlowStatements(context, bench);
  const size = `${formatNumber(events)} events of ${SIZE.days} days with their history, filled in ${formatNumber(filledS)} s.`;
  return report({ size, servers, loads, clients, looks, rest, slow });
}

async function startInTurns(context: BenchContext, name: string, bench: BenchDatabase): Promise<Server> {
  const server: Omit<Server, 'weir'> = { name, bench, startMs: [], startMb: [], loadedMb: 0 };
  for (let start = 1; ; start++) {
    const directory = join(bench.directory, `start-${start}`);
    await mkdir(directory, { mode: 0o711 });
    const weir = await startWeir({ ...bench, directory, processes: 1, settings: SETTINGS });
    server.startMs.push(weir.startMs);
    server.startMb.push(megabytesOf(weir));
    if (start > context.rounds) {
      context.undo(() => weir.stop());
      return { ...server, weir };
    }
    await weir.stop();
  }
}

function megabytesOf({ processes }: RunningWeir): number {
  return residentBytes(processes[0]!) / 1e6;
}

/** A webhook with an agent: events of both Weirs become deliveries. */
async function addAgentOf({ weir }: Server) {
  const { id: webhookId } = await weir.addWebhook();
  return { webhookId, ...(await weir.addAgent([webhookId])) };
}

function report({ size, servers, loads, clients, looks, rest, slow }: Measured): BenchOutcome {
  const pages = reportLooks(looks.timed, PAGE_MS);
  const claims = reportLooks(new Map(clients.flatMap(({ looks }) => [...looks.timed])), PAGE_MS);
  const claimMs = clients.map(({ looks }) => spreadOf([...looks.timed.values()][0]!.map(({ ms }) => ms)).median);
  const claimGoals = clients.slice(1).map(({ name }, i) => {
    return atLeast(`rate, ${name}, over empty:`, [claimMs[0]! / claimMs[i + 1]!], 0.8);
  });
  const ratesOf = ({ windows }: Measured['loads'][number]) => windows.map((window) => window.requestsPerSecond);
  const [empty, ...others] = loads as [Measured['loads'][number], ...Measured['loads']];
  const ratios = others.map((one) => {
    return { of: one.name, to: empty.name, values: ratioByRound(ratesOf(one), ratesOf(empty)) };
  });
  const starts = tabulate('start', servers, [
    ['ms', null, ({ startMs }) => startMs],
    ['memory of a process, MB', null, ({ startMb }) => startMb],
    ['after the loads, MB', null, ({ loadedMb }) => [loadedMb]],
  ]);
  const receiving = tabulate(`${CONNECTIONS} connections`, loads, [
    ['requests/s', null, ratesOf],
    ['event loop, us', null, ({ windows }) => windows.map(({ us }) => us.eventLoop)],
    ['Postgres, us', null, ({ windows }) => windows.map(({ us }) => us.postgres)],
    ['all, us', null, ({ windows }) => windows.map(totalUs)],
  ]);
  return {
    tables: [starts.table, receiving.table, claims.table, pages.table, rest],
    measures: [...claims.measures, ...pages.measures],
    ratios,
    goals: [
      ...ratios.map(({ of, values }) => atLeast(`requests/s, ${of} over empty:`, values, 0.9)),
      ...claimGoals,
      ...pages.goals,
      below(`statements above ${STATEMENT_MS} ms:`, [slow], 1),
    ],
    notes: [`${size} Each Weir has 1 process on a Postgres of its own; the load generator shares the cores.`],
    faults: loads.flatMap(({ name, windows }) => windowFaults(name, windows)),
  };
}
