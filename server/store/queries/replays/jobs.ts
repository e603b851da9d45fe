/** Jobs: their rows. The work of a batch is in batch.ts. */
import type { z } from 'zod';
import { JOBS_KEPT_DAYS, jobSchema } from '../../../model/jobs.ts';
import { concatenated } from '../../connect/place.ts';
import type { Queries, Query } from '../../connect/pool.ts';
import { arrayOf, selectList } from '../../sql.ts';
import type { ReplayScope } from './events.ts';

export type JobRecord = z.output<typeof jobSchema>;

const record = selectList(jobSchema, 'j', {
  agent_ids: 'to_json(j.agent_ids)',
  created_by: `json_build_object('kind', j.created_by ->> 'kind', 'name', j.created_by ->> 'name')`,
  events: 'j.events::float8',
  deliveries: 'j.deliveries::float8',
  progress: `case when j.state = 'done' then 1 else least(1, coalesce(
    extract(epoch from j.replayed_to - j.first_at) / nullif(extract(epoch from j.until - j.first_at), 0), 0))::float8 end`,
});

interface NewJob extends ReplayScope {
  id: string;
  filter: object;
  /** ISO 8601; events received from then on are not included. Null, or later than now: now. */
  to: string | null;
  createdBy: object;
}

/** Inserts a queued job. */
export async function insertJob(
  query: Query,
  { id, filter, agentIds, beyondSubscriptions, to, createdBy }: NewJob,
): Promise<void> {
  await query({
    text: `insert into jobs (id, kind, filter, agent_ids, beyond_subscriptions, until, created_by)
           values ($1, 'replay_events', $2, $3, $6, least($4::timestamptz, now()), $5)`,
    values: [
      id,
      JSON.stringify(filter),
      agentIds && arrayOf(agentIds),
      to,
      JSON.stringify(createdBy),
      beyondSubscriptions,
    ],
  });
}

/** Counts queued and running jobs. */
export async function countUnfinishedJobs(query: Query): Promise<number> {
  const [row] = await query<{ count: number }>({
    text: `select count(*)::int as count from jobs where state in ('queued', 'running')`,
  });
  return row!.count;
}

/** Whether an active agent, one of `agentIds` (null: any), is subscribed to the webhook (null: to any). */
export async function hasSubscribers(
  query: Query,
  webhookId: string | null,
  agentIds: readonly string[] | null,
): Promise<boolean> {
  const [row] = await query<{ any: boolean }>({
    text: `select exists (
        select from subscriptions s join agents a on a.id = s.agent_id
        where a.revoked_at is null and ($1::uuid is null or s.webhook_id = $1) and ($2::uuid[] is null or a.id = any ($2))
      ) as any`,
    values: [webhookId, agentIds && arrayOf(agentIds)],
  });
  return row!.any;
}

/** Finds a job; undefined: not found. */
export async function findJob(query: Query, id: string): Promise<JobRecord | undefined> {
  const [row] = await query<JobRecord>({ text: `select ${record} from jobs j where j.id = $1`, values: [id] });
  return row;
}

/** Lists jobs, newest first. `before`: id of the last job of the previous page. */
export function listJobs({ query }: Queries, before: string | null, limit: number): Promise<JobRecord[]> {
  return query<JobRecord>({
    text: `
      select ${record} from jobs j
      where $1::uuid is null or (j.created_at, j.id) < (select l.created_at, l.id from jobs l where l.id = $1)
      order by j.created_at desc, j.id desc
      limit $2`,
    values: [before, limit],
  });
}

/** Ends an unfinished job after the batch in progress. Returns false when no unfinished job has this id. */
export async function cancelJob(query: Query, id: string): Promise<boolean> {
  const rows = await query({
    text: `update jobs set state = 'cancelled', finished_at = now() where id = $1 and state in ('queued', 'running') returning 1`,
    values: [id],
  });
  return rows.length > 0;
}

/** Id of the oldest job that is queued or running; undefined: no unfinished job exists. */
export async function nextJob({ query }: Queries): Promise<string | undefined> {
  const [row] = await query<{ id: string }>({
    text: `select id from jobs where state in ('queued', 'running') order by created_at, id limit 1`,
  });
  return row?.id;
}

/** Ends an unfinished job as failed. @param reason truncated to 500 characters */
export async function failJob(query: Query, id: string, reason: string): Promise<void> {
  await query({
    text: `update jobs set state = 'failed', reason = left($2, 500), finished_at = now()
           where id = $1 and state in ('queued', 'running')`,
    values: [id, reason],
  });
}

/** Deletes jobs that finished JOBS_KEPT_DAYS ago. Returns how many. */
export async function deleteOldJobs({ query }: Queries): Promise<number> {
  const rows = await query<{ id: string }>({
    text: `delete from jobs where finished_at < now() - interval '${JOBS_KEPT_DAYS} days' returning id`,
  });
  if (rows.length > 0)
    await query({
      text: 'delete from job_progress where job_id = any ($1::uuid[])',
      values: [arrayOf(rows.map(({ id }) => id))],
      place: { each: concatenated, lenient: true },
    });
  return rows.length;
}
