/**
 * Runs jobs, oldest first, one at a time over all machines: any primary continues a job where its last committed batch ended. Correctness
 * needs only the lock on the job's row (queries/replays/batch.ts); the advisory lock keeps the rate.
 *
 *     queued ──▶ running ──▶ done
 *        │          ├──────▶ failed     no agent is left, or FAILURES_MAX errors in a row
 *        └──────────┴──────▶ cancelled
 */
import type { Log } from '../../base/telemetry/log.ts';
import { pause } from '../../base/time/backoff.ts';
import { eventCountQuery, eventFilterOf } from '../../model/event-filter.ts';
import { advisoryLocks, unlessElsewhere } from '../../store/advisory-locks.ts';
import { record, systemActor } from '../../store/audit/record.ts';
import { ARRIVALS_CHANNEL } from '../../store/connect/listen.ts';
import type { Database, Query } from '../../store/connect/pool.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import { type JobScope, type ReplayBatch, replayBatch } from '../../store/queries/replays/batch.ts';
import { failJob, findJob, nextJob } from '../../store/queries/replays/jobs.ts';

/** How often a primary without a job looks for one, and retries while the database takes no writes. */
const CHECK_EVERY_MS = 2_000;
/** After this number of consecutive errors a job fails. Outages of the database do not count. */
const FAILURES_MAX = 3;
const NO_AGENT = 'no agent of agent_ids is active any more';

interface JobParts {
  /** A job takes two connections: one for the lock, one for its batches. */
  database: Database;
  log: (...line: Parameters<Log>) => void;
  /** REPLAY_DELIVERIES_PER_SECOND */
  perSecond: () => number;
  /** Called with the events of each committed batch. */
  onReplayed: (events: number) => void;
}

/** Runs jobs until the returned function is called. That function waits for the batch in progress. */
export function runJobs(parts: JobParts): () => Promise<void> {
  const { database, log } = parts;
  const stop = new AbortController();
  let isPaused = false;
  const runQueued = async () => {
    if ((await nextJob(database)) === undefined) return;
    await unlessElsewhere(database, advisoryLocks.jobs, async () => {
      for (let id = await nextJob(database); id !== undefined; id = await nextJob(database)) {
        await runJob(parts, id, stop.signal);
        isPaused = false;
        if (stop.signal.aborted) return;
      }
    });
  };
  const loop = async () => {
    while (!stop.signal.aborted) {
      try {
        await runQueued();
      } catch (error) {
        if (!isPaused) log('jobs_paused', { reason: (error as Error).message });
        isPaused = true;
      }
      await pause(CHECK_EVERY_MS, stop.signal);
    }
  };
  const running = loop();
  return async () => {
    stop.abort();
    await running;
  };
}

/** Runs batches of the job until it ends. Rejects with DatabaseUnavailable; the job then continues later. */
async function runJob({ database, log, perSecond, onReplayed }: JobParts, id: string, stop: AbortSignal) {
  let failures = 0;
  let sliceEnd: string | null = null;
  while (!stop.aborted) {
    const startedMs = performance.now();
    try {
      const batch: ReplayBatch = await database.transaction((query) => runBatch(query, id, sliceEnd));
      failures = 0;
      if (batch.kind === 'no_agent') return log('job_failed', { job_id: id, reason: NO_AGENT, final: true });
      if (batch.kind === 'ended') return;
      onReplayed(batch.events);
      // Wakes the waiting claims of every process, as after a commit of new events.
      if (batch.deliveries > 0) await database.query({ text: `notify ${ARRIVALS_CHANNEL}` });
      if (batch.kind === 'done') return log('job_done', { job_id: id });
      sliceEnd = batch.sliceEnd;
      await pause(restMs(batch.deliveries, perSecond(), performance.now() - startedMs), stop);
    } catch (error) {
      if (error instanceof DatabaseUnavailable || stop.aborted) throw error;
      sliceEnd = null;
      failures++;
      log('job_failed', { job_id: id, reason: (error as Error).message, final: failures === FAILURES_MAX });
      if (failures < FAILURES_MAX) continue;
      await database.transaction((query) => fail(query, id, (error as Error).message));
      return;
    }
  }
}

/**
 * The pause after a batch, in milliseconds. It keeps the rate, and is at least as long as the batch took: a job uses at most half of a
 * connection's time, also while it finds nothing. bench/NOTES.md has the rate of claims beside a job.
 */
export function restMs(deliveries: number, perSecond: number, tookMs: number): number {
  return Math.max((deliveries / perSecond) * 1000 - tookMs, tookMs);
}

async function runBatch(query: Query, id: string, sliceEnd: string | null): Promise<ReplayBatch> {
  const batch = await replayBatch(query, id, scopeOf, sliceEnd);
  if (batch.kind === 'no_agent') await fail(query, id, NO_AGENT);
  if (batch.kind === 'done') await recordEnd(query, id);
  return batch;
}

/** The filters were validated when the job was created. */
function scopeOf(given: Record<string, string>): JobScope {
  const { filter, span } = eventFilterOf(eventCountQuery.parse(given), null, null);
  return { filter, from: span.from };
}

async function fail(query: Query, id: string, reason: string): Promise<void> {
  await failJob(query, id, reason);
  await recordEnd(query, id);
}

async function recordEnd(query: Query, id: string): Promise<void> {
  const job = await findJob(query, id);
  if (job === undefined) return;
  const { state, events, deliveries, reason } = job;
  const target = { kind: 'job', id, name: id };
  await record(query, systemActor, { action: 'job.end', target, after: { state, events, deliveries, reason } });
}
