/** One batch of a replay job. */
import { z } from 'zod';
import type { Merge } from '../../connect/place.ts';
import type { Query } from '../../connect/pool.ts';
import { expected } from '../../connect/unavailable.ts';
import { uuidv7Time } from '../../ids.ts';
import { Placeholders } from '../../sql.ts';
import { readAgents } from '../agents/active-agents.ts';
import { deliveryCondition, type EventFilter, eventConditions, where } from '../events/conditions.ts';
import { deliverAgain } from './events.ts';

const BATCH_EVENTS_MAX = 100;
/** Events read in one transaction, and bytes of their bodies if these are searched: 10 to 40 ms, see events/events.ts. */
const READ_EVENTS_MAX = 10_000;
const READ_BYTES_MAX = 8_388_608;

export interface JobScope {
  filter: EventFilter;
  /** ISO 8601, inclusive; null: from the first event. */
  from: string | null;
}

/**
 * `ended`: the job was finished before. `more`: the next batch continues after the cursor.
 * `sliceEnd`: last event of the slice that the batch read a part of; null when the slice is finished.
 */
export type ReplayBatch =
  | { kind: 'ended' }
  | { kind: 'no_agent' }
  | { kind: 'more' | 'done'; events: number; deliveries: number; sliceEnd: string | null };

interface JobRow {
  filter: Record<string, string>;
  agentIds: string[] | null;
  beyondSubscriptions: boolean;
  until: string;
  cursor: string | null;
}

/**
 * Replays the next events of a job, oldest first. Call in a transaction: the deliveries are committed together with the cursor, and the
 * lock on the job's row makes batches of two machines run one after the other. Each event is therefore replayed once, also after a crash.
 * @param scopeOf the scope of the job's filters
 * @param sliceEnd of the previous batch of the same run, so that a slice with many matches is bounded once; null: unknown
 */
export async function replayBatch(
  query: Query,
  id: string,
  scopeOf: (filter: Record<string, string>) => JobScope,
  sliceEnd: string | null,
): Promise<ReplayBatch> {
  const [job] = await query<JobRow>({
    text: `select filter, to_json(agent_ids) as "agentIds", beyond_subscriptions as "beyondSubscriptions", until::text, cursor from jobs
           where id = $1 and state in ('queued', 'running') for update`,
    values: [id],
  });
  if (job === undefined) return { kind: 'ended' };
  const { agentIds } = job;
  if (agentIds !== null && (await readAgents({ query }, agentIds, agentIds.length)).length === 0)
    return { kind: 'no_agent' };
  const range: Range = { ...scopeOf(job.filter), until: job.until, after: job.cursor };
  if (job.cursor === null) await begin(query, id, range);
  const last = sliceEnd ?? (await lastOfSlice(query, range));
  const eventIds = last === undefined ? [] : await findMatches(query, range, last);
  const deliveries = eventIds.length === 0 ? 0 : (await deliverAgain({ query }, eventIds, job, id)).length;
  // A full batch may have left matches in the slice.
  const isFull = eventIds.length === BATCH_EVENTS_MAX;
  const cursor = isFull ? eventIds.at(-1)! : last;
  const kind = cursor === undefined ? 'done' : 'more';
  await query({
    text: `
      update jobs
      set state = $2, cursor = coalesce($3::uuid, cursor), replayed_to = coalesce($4::timestamptz, replayed_to),
        events = events + $5::int, deliveries = deliveries + $6::int, updated_at = now(),
        finished_at = case when $2 = 'done' then now() end
      where id = $1`,
    values: [
      id,
      kind === 'done' ? 'done' : 'running',
      cursor ?? null,
      cursor === undefined ? null : uuidv7Time(cursor),
      eventIds.length,
      deliveries,
    ],
  });
  return { kind, events: eventIds.length, deliveries, sliceEnd: isFull && cursor !== last ? last! : null };
}

interface Range extends JobScope {
  until: string;
  /** Event id, exclusive; null: from the beginning. */
  after: string | null;
}

/** Records the time of the first event, from which the progress is counted. */
async function begin(query: Query, id: string, range: Range): Promise<void> {
  const given = new Placeholders();
  const [first] = await query<{ id: string }>({
    text: `select id from events e ${where(rangeConditions(given, range))} order by received_at, id limit 1`,
    values: given.values,
    place: { each: oldest(1) },
  });
  await query({
    text: 'update jobs set started_at = coalesce(started_at, now()), first_at = $2 where id = $1',
    values: [id, first === undefined ? null : uuidv7Time(expected(z.guid(), first.id))],
  });
}

/** The oldest rows of all cells. Each cell has read up to `limit` rows, so none is missing. */
function oldest<Row extends { id: string }>(limit: number): Merge<Row> {
  return (byCell) =>
    byCell
      .flat()
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .slice(0, limit);
}

/** The last event that one batch reads; undefined: nothing is left. */
async function lastOfSlice(query: Query, range: Range): Promise<string | undefined> {
  const given = new Placeholders();
  const conditions = where(rangeConditions(given, range));
  const slice =
    range.filter.text === null
      ? `select received_at, id, 0 as bytes_before from events e ${conditions} order by received_at, id`
      : `select received_at, id, sum(bytes) over (order by received_at, id rows unbounded preceding) - bytes as bytes_before
         from events e ${conditions} order by received_at, id`;
  const [row] = await query<{ id: string }>({
    text: `
      select id from (${slice} limit ${given.of(READ_EVENTS_MAX, 'bigint')}) slice
      where bytes_before < ${given.of(READ_BYTES_MAX, 'bigint')}
      order by received_at desc, id desc limit 1`,
    values: given.values,
    place: { each: oldest(1) },
  });
  return expected(z.guid().optional(), row?.id);
}

/** Ids of the first matches up to the event `last`. Planned with the values, so that the plan has only the partitions of the range. */
async function findMatches(query: Query, range: Range, last: string): Promise<string[]> {
  const given = new Placeholders();
  const { filter } = range;
  const from = range.after === null ? range.from : uuidv7Time(range.after);
  const span = { from, to: range.until, before: null, downTo: null };
  const lastAt = given.of(uuidv7Time(last), 'timestamptz');
  const conditions = [
    ...rangeConditions(given, range),
    `e.received_at <= ${lastAt}`,
    `(e.received_at, e.id) <= (${lastAt}, ${given.of(last, 'uuid')})`,
    ...eventConditions(given, filter),
    deliveryCondition(given, filter, span),
  ];
  const rows = await query<{ id: string }>({
    text: `select e.id from events e ${where(conditions)} order by e.received_at, e.id limit ${given.of(BATCH_EVENTS_MAX, 'bigint')}`,
    values: given.values,
    place: { each: oldest(BATCH_EVENTS_MAX) },
  });
  return rows.map(({ id }) => expected(z.guid(), id));
}

/** The conditions of a range: plain ones on the time, which select partitions, and a (time, id) pair. */
function rangeConditions(given: Placeholders, { from, until, after }: Range): (string | null)[] {
  const start = after === null ? from : uuidv7Time(after);
  return [
    `e.received_at < ${given.of(until, 'timestamptz')}`,
    start && `e.received_at >= ${given.of(start, 'timestamptz')}`,
    after && `(e.received_at, e.id) > (${given.of(start, 'timestamptz')}, ${given.of(after, 'uuid')})`,
  ];
}
