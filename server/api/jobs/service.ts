/** Creates and cancels jobs, with audit entries. */
import { randomUUID } from 'node:crypto';
import type { Actor } from '../../audit/actor.ts';
import { record } from '../../audit/record.ts';
import type { Database } from '../../db/pool.ts';
import { missingAgents } from '../../db/queries/agents.ts';
import {
  cancelJob,
  countUnfinishedJobs,
  findJob,
  hasSubscribers,
  insertJob,
  type JobRecord,
} from '../../db/queries/jobs.ts';
import { JOBS_UNFINISHED_MAX } from '../../resources/jobs.ts';

export interface ReplayOrder {
  /** Filters of the list of events, validated. */
  filter: { webhook_id?: string | undefined; to?: string | undefined };
  /** Null: all subscribed agents. */
  agentIds: readonly string[] | null;
}

/** `no_agent`: no agent is subscribed. `full`: JOBS_UNFINISHED_MAX jobs are unfinished. */
export type JobCreated =
  | { kind: 'done'; id: string }
  | { kind: 'no_agent' }
  | { kind: 'full' }
  | { kind: 'agents_unknown'; agentIds: string[] };

/** Creates a job that replays all events by filter that were received until now. */
export function createReplayJob(database: Database, actor: Actor, order: ReplayOrder): Promise<JobCreated> {
  const { filter, agentIds } = order;
  return database.transaction<JobCreated>(async (query) => {
    const missing = agentIds === null ? [] : await missingAgents({ query }, agentIds);
    if (missing.length > 0) return { kind: 'agents_unknown', agentIds: missing };
    if (agentIds === null && !(await hasSubscribers(query, filter.webhook_id ?? null))) return { kind: 'no_agent' };
    if ((await countUnfinishedJobs(query)) >= JOBS_UNFINISHED_MAX) return { kind: 'full' };
    const id = randomUUID();
    const { confirm: _, ...createdBy } = actor;
    await insertJob(query, { id, filter, agentIds, to: filter.to ?? null, createdBy });
    const target = { kind: 'job', id, name: id };
    await record(query, actor, { action: 'job.create', target, after: { filter, agent_ids: agentIds } });
    return { kind: 'done', id };
  });
}

/** `finished`: the job had ended before. */
type JobCancelled = { kind: 'done'; job: JobRecord } | { kind: 'unknown' } | { kind: 'finished' };

/** Cancels an unfinished job, after its batch in progress. The deliveries that it has created stay. */
export function cancelReplayJob(database: Database, actor: Actor, id: string): Promise<JobCancelled> {
  return database.transaction<JobCancelled>(async (query) => {
    const isCancelled = await cancelJob(query, id);
    const job = await findJob(query, id);
    if (job === undefined) return { kind: 'unknown' };
    if (!isCancelled) return { kind: 'finished' };
    const { state, events, deliveries } = job;
    const target = { kind: 'job', id, name: id };
    await record(query, actor, { action: 'job.cancel', target, after: { state, events, deliveries } });
    return { kind: 'done', job };
  });
}
