/** Creates and cancels jobs, with audit entries. */
import { randomUUID } from 'node:crypto';
import { problem, type Result } from '../../../base/http/problem.ts';
import { JOBS_UNFINISHED_MAX } from '../../../model/jobs.ts';
import type { Actor } from '../../../store/audit/actor.ts';
import { record } from '../../../store/audit/record.ts';
import type { Database } from '../../../store/connect/pool.ts';
import {
  cancelJob,
  countUnfinishedJobs,
  findJob,
  hasSubscribers,
  insertJob,
  type JobRecord,
} from '../../../store/queries/replays/jobs.ts';
import type { ReplayScope } from '../../../store/queries/replays/recipients.ts';
import { activeAgents } from '../events/replay.ts';

interface ReplayOrder extends ReplayScope {
  /** Filters of the list of events, validated. */
  filter: { webhook_id?: string | undefined; to?: string | undefined };
}

/** Creates a job that replays all events by filter that were received until now. Resolves with its id. */
export function createReplayJob(database: Database, actor: Actor, order: ReplayOrder): Promise<Result<string>> {
  const { filter, agentIds, beyondSubscriptions } = order;
  const isForNamed = agentIds !== null && beyondSubscriptions;
  return database.transaction<Result<string>>(async (query) => {
    const named = await activeAgents({ query }, agentIds);
    if (named.kind === 'problem') return named;
    if (!isForNamed && !(await hasSubscribers(query, filter.webhook_id ?? null, agentIds)))
      return problem('no_recipients');
    if ((await countUnfinishedJobs(query)) >= JOBS_UNFINISHED_MAX) return problem('jobs_full');
    const id = randomUUID();
    const { confirm: _, ...createdBy } = actor;
    await insertJob(query, { id, ...order, to: filter.to ?? null, createdBy });
    const target = { kind: 'job', id, name: id };
    const after = { filter, agent_ids: agentIds, beyond_subscriptions: beyondSubscriptions };
    await record(query, actor, { action: 'job.create', target, after });
    return { kind: 'done', value: id };
  });
}

/** Cancels an unfinished job, after its batch in progress. The deliveries that it has created stay. */
export function cancelReplayJob(database: Database, actor: Actor, id: string): Promise<Result<JobRecord>> {
  return database.transaction<Result<JobRecord>>(async (query) => {
    const isCancelled = await cancelJob(query, id);
    const job = await findJob(query, id);
    if (job === undefined) return problem('job_unknown');
    if (!isCancelled) return problem('job_finished');
    const { state, events, deliveries } = job;
    const target = { kind: 'job', id, name: id };
    await record(query, actor, { action: 'job.cancel', target, after: { state, events, deliveries } });
    return { kind: 'done', value: job };
  });
}
