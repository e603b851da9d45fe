/** /api/v1/jobs: lists, shows and cancels jobs. `createReplayJob` is called by the replay of events. Changes have audit entries. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { problem, type Result } from '../../../base/http/problem.ts';
import { recordId } from '../../../model/fields.ts';
import { JOBS_UNFINISHED_MAX, jobSchema } from '../../../model/jobs.ts';
import { type Actor, record } from '../../../store/audit/record.ts';
import type { Database } from '../../../store/connect/pool.ts';
import type { ReplayScope } from '../../../store/queries/replays/events.ts';
import {
  cancelJob,
  countUnfinishedJobs,
  findJob,
  hasSubscribers,
  insertJob,
  type JobRecord,
  listJobs,
} from '../../../store/queries/replays/jobs.ts';
import { activeAgents } from '../events/replay.ts';
import { done, found, operation, replyTo } from '../operation.ts';
import { cursorProblem, pageOf, pageSchema, recordPageQuery } from '../paging.ts';

const id = { schema: recordId, problem: 'job_unknown' } as const;

/** The only kind of job is a replay of many events. */
export function jobOperations(database: Database) {
  return {
    listJobs: operation({
      query: z.strictObject(recordPageQuery),
      answers: { 200: pageSchema(jobSchema) },
      handle: async ({ query: { cursor, limit } }) => {
        const rows = await listJobs(database, cursor ?? null, limit + 1);
        const wrong = await cursorProblem(database, 'jobs', cursor, rows);
        if (wrong !== null) return wrong;
        return done(200, pageOf(rows, limit));
      },
    }),

    showJob: operation({
      id,
      answers: { 200: jobSchema },
      handle: async ({ id }) => found(await findJob(database.query, id), 'job_unknown'),
    }),

    cancelJob: operation({
      id,
      answers: { 200: jobSchema },
      problems: ['job_finished'],
      handle: async ({ actor, id }) => replyTo(await cancelReplayJob(database, actor, id), (job) => done(200, job)),
    }),
  };
}

interface ReplayOrder extends ReplayScope {
  /** Filters of the list of events, validated. */
  filter: { webhook_id?: string | undefined; to?: string | undefined };
}

/** Creates a job that replays all events that match the filter and were received until now. Resolves with its id. */
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
function cancelReplayJob(database: Database, actor: Actor, id: string): Promise<Result<JobRecord>> {
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
