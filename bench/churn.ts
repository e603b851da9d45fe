/**
 * Scenario `churn`: whether claims and the table of live deliveries stay as they are while deliveries pass through it.
 *
 *     at rest | beside a snapshot that is held, as pg_dump holds one | after it, each for one window
 *     in each: so many events a second are stored, and one consumer claims up to 100 of them, acknowledges, and claims again
 *
 * A row that was claimed or acknowledged stays until vacuum removes it, which it cannot do while an older snapshot is held.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { readProcessor, timeBetween } from '../server/operate/load/processor.ts';
import type { Database } from '../server/store/connect/pool.ts';
import { type AgentClient, openBenchAgent } from './lib/agent.ts';
import { storeEvents } from './lib/backlog.ts';
import { connectNative, postgresPids } from './lib/database.ts';
import { type BenchContext, type BenchOutcome, below, type Scenario, tabulate } from './lib/outcome.ts';
import { formatNumber, percentile } from './lib/stats.ts';
import { type OpenedWeir, openWeir } from './lib/weir.ts';

const EVENTS_A_SECOND = 500;
const PARTS_A_SECOND = 5;
const BODY_BYTES = 1024;
const CLAIM_MAX = 100;
const WAIT_SECONDS = 1;
const MIB = 1_048_576;
/** The last part of a window, in which claims are compared: what has grown has grown by then. */
const COMPARED = 1 / 3;

export const churn: Scenario = {
  name: 'churn',
  summary: 'claims and the size of the live table during constant work, beside a snapshot and after it',
  defaults: { rounds: 1, seconds: 180 },
  run,
};

interface Phase {
  name: string;
  deliveries: number;
  /** Times of the claims in the last part of the window, ms. */
  claimMs: number[];
  /** Processor time of Postgres for each delivery of that part. */
  postgresUs: number;
  /** The live table with its indexes, at the start, the highest, and at the end. */
  bytes: { start: number; most: number; end: number };
}

async function run(context: BenchContext): Promise<BenchOutcome> {
  const opened = await openWeir(context);
  const webhook = await opened.weir.addWebhook();
  const { credential } = await opened.weir.addAgent([webhook.id]);
  const client = await openBenchAgent(opened.weir.origin, credential);
  context.undo(() => client.close());
  const measure = async (name: string) => {
    const phase = await pass(context, opened, { name, webhookId: webhook.id, client });
    const [p50, p95] = [percentile(phase.claimMs, 0.5), percentile(phase.claimMs, 0.95)];
    context.say(
      `${name}: ${formatNumber(phase.deliveries)} deliveries, claim p50 ${formatNumber(p50)} ms, p95 ${formatNumber(p95)} ms, ` +
        `Postgres ${formatNumber(phase.postgresUs)} us, live table ${mebibytes(phase.bytes.end)} MiB, at most ${mebibytes(phase.bytes.most)}`,
    );
    return phase;
  };
  await measure('warm-up');
  const atRest = await measure('at rest');
  const release = await holdSnapshot(opened.conninfo);
  const beside = await measure('beside a snapshot').finally(release);
  const after = await measure('after the snapshot');
  return summarise(context, [atRest, beside, after]);
}

/** Begins a transaction that sees the rows of now until it is released. */
async function holdSnapshot(conninfo: string): Promise<() => Promise<void>> {
  const client = await connectNative(conninfo, 'snapshot');
  await client.query('begin isolation level repeatable read');
  await client.query('select count(*) from webhooks');
  return () => client.end();
}

async function pass(
  { seconds, signal }: BenchContext,
  { database, weir }: OpenedWeir,
  { name, webhookId, client }: { name: string; webhookId: string; client: AgentClient },
): Promise<Phase> {
  const startMs = performance.now();
  const endMs = startMs + seconds * 1000;
  const comparedMs = endMs - seconds * 1000 * COMPARED;
  const start = await liveBytes(database);
  const phase: Phase = { name, deliveries: 0, claimMs: [], postgresUs: 0, bytes: { start, most: start, end: start } };
  const read = async () => readProcessor(weir.processes, await postgresPids(database));
  let compared: { before: Awaited<ReturnType<typeof read>>; deliveries: number } | null = null;

  const produce = async () => {
    for (let part = 1; performance.now() < endMs; part++) {
      signal.throwIfAborted();
      await storeEvents(database, { webhookId, rows: EVENTS_A_SECOND / PARTS_A_SECOND, bodyBytes: BODY_BYTES });
      if (part % PARTS_A_SECOND === 0) {
        phase.bytes.end = await liveBytes(database);
        phase.bytes.most = Math.max(phase.bytes.most, phase.bytes.end);
      }
      if (compared === null && performance.now() >= comparedMs)
        compared = { before: await read(), deliveries: phase.deliveries };
      await delay(Math.max(0, startMs + (part * 1000) / PARTS_A_SECOND - performance.now()));
    }
  };
  const consume = async () => {
    // A claim that waits follows one that found nothing. Only claims without a wait are timed.
    for (let waits = false; ; ) {
      const claimedMs = performance.now();
      const order = waits ? { max: 1, waitSeconds: WAIT_SECONDS } : { max: CLAIM_MAX, waitSeconds: 0 };
      const deliveries = await client.claim(order);
      if (deliveries.length > 0) {
        if (!waits && claimedMs >= comparedMs) phase.claimMs.push(performance.now() - claimedMs);
        await client.ack(deliveries);
        phase.deliveries += deliveries.length;
      } else if (!waits && performance.now() >= endMs) return;
      waits = !waits && deliveries.length === 0;
    }
  };
  await Promise.all([produce(), consume()]);
  const { before, deliveries } = compared!;
  phase.postgresUs = timeBetween(before, await read()).postgres / (phase.deliveries - deliveries);
  return phase;
}

async function liveBytes(database: Database): Promise<number> {
  const [row] = await database.query<{ bytes: number }>({
    text: `select pg_total_relation_size('deliveries_live')::float8 as bytes`,
  });
  return row!.bytes;
}

const mebibytes = (bytes: number) => formatNumber(bytes / MIB);

function summarise({ seconds }: BenchContext, phases: readonly Phase[]): BenchOutcome {
  const [atRest, beside, after] = phases as [Phase, Phase, Phase];
  const p50 = ({ claimMs }: Phase) => percentile(claimMs, 0.5);
  const { table, measures } = tabulate('', phases, [
    ['deliveries', null, ({ deliveries }) => [deliveries]],
    ['claim p50 ms', ['claim p50', 'ms'], (phase) => [p50(phase)]],
    ['claim p95 ms', null, ({ claimMs }) => [percentile(claimMs, 0.95)]],
    ['Postgres, us a delivery', ['Postgres', 'us'], ({ postgresUs }) => [postgresUs]],
    ['MiB at the start', null, ({ bytes }) => [bytes.start / MIB]],
    ['at most', null, ({ bytes }) => [bytes.most / MIB]],
    ['at the end', null, ({ bytes }) => [bytes.end / MIB]],
    [null, ['live table', 'bytes'], ({ bytes }) => [bytes.end]],
  ]);
  return {
    tables: [table],
    measures,
    goals: [
      below('live table at the end over the start, at rest:', [atRest.bytes.end / atRest.bytes.start], 1.5, 'times'),
      below('claim beside a snapshot over at rest, p50:', [p50(beside) / p50(atRest)], 2, 'times'),
      below('claim after the snapshot over at rest, p50:', [p50(after) / p50(atRest)], 1.2, 'times'),
    ],
    notes: [
      `${EVENTS_A_SECOND} events of 1 KiB a second, stored with SQL, a window of ${seconds} s each; claims and Postgres are those of the last third of it.`,
      'A claim takes up to 100 and does not wait. The size is that of the live table with its indexes.',
    ],
    faults: phases.filter(({ claimMs }) => claimMs.length === 0).map(({ name }) => `${name}: no claim was measured`),
  };
}
