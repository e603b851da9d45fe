/** Retention per webhook (retention_days): which events have expired, and their removal in bounded statements. */
import type { Database } from '../pool.ts';
import { arrayOf, isoText } from './sql.ts';

/** Limit on the rows that one statement reads and deletes: 25 ms, short locks, little to vacuum at a time. */
const ROWS_MAX = 5_000;

/** Webhooks with the same retention and the same removal progress. */
export interface RetentionGroup {
  webhookIds: string[];
  retentionDays: number;
  /** Unix milliseconds; null: nothing removed yet. */
  removedBeforeMs: number | null;
}

/** Reads webhooks, including deleted ones, that keep events for less than `retentionDays`. */
export async function readRetentionGroups(
  { query }: Pick<Database, 'query'>,
  retentionDays: number,
): Promise<RetentionGroup[]> {
  const rows = await query<Omit<RetentionGroup, 'removedBeforeMs'> & { removedBefore: string | null }>({
    name: 'read-retention-groups',
    text: `select array_agg(id::text) as "webhookIds", retention_days as "retentionDays",
             ${isoText('events_removed_before')} as "removedBefore"
           from webhooks where retention_days < $1
           group by retention_days, events_removed_before
           order by retention_days, events_removed_before`,
    values: [retentionDays],
  });
  return rows.map(({ removedBefore, ...group }) => ({
    ...group,
    removedBeforeMs: removedBefore === null ? null : Date.parse(removedBefore),
  }));
}

/** Records that the events of these webhooks received before a time (Unix milliseconds) were removed. */
export async function noteRemovedBefore(
  { query }: Pick<Database, 'query'>,
  webhookIds: readonly string[],
  beforeMs: number,
): Promise<void> {
  await query({
    name: 'note-removed-before',
    text: 'update webhooks set events_removed_before = $2 where id = any ($1::uuid[])',
    values: [arrayOf(webhookIds), new Date(beforeMs).toISOString()],
  });
}

interface Removed {
  rows: number;
  /** Deliveries that were not settled. */
  unhandled: number;
  /** Where the next statement starts; null: done. */
  next: Place | null;
}

interface Place {
  receivedAt: string;
  id: string;
}

/**
 * Deletes rows of these webhooks received from `fromMs` (inclusive) to `toMs` (exclusive), Unix milliseconds, among the first ROWS_MAX
 * rows after `after`. Walks the primary key, which contains webhook_id: rows of other webhooks cost one index entry each.
 */
export async function removeSome(
  { query }: Pick<Database, 'query'>,
  table: 'events' | 'deliveries',
  webhookIds: readonly string[],
  { fromMs, toMs }: { fromMs: number; toMs: number },
  after: Place | null,
): Promise<Removed> {
  const [found] = await query<{ rows: number; unhandled: number; read: number } & Place>({
    text: `
      with walked as materialized (
        select received_at, id, webhook_id from ${table}
        where received_at >= $1 and received_at < $2 ${after === null ? '' : 'and (received_at, id) > ($4::timestamptz, $5::uuid)'}
        order by received_at, id limit ${ROWS_MAX}
      ), removed as (
        delete from ${table} t using walked w
        where w.webhook_id = any ($3::uuid[]) and t.received_at >= $1 and t.received_at < $2
          and t.received_at = w.received_at and t.id = w.id and t.webhook_id = w.webhook_id
        returning ${table === 'deliveries' ? "t.state in ('pending', 'leased')" : 'false'} as unhandled
      )
      select (select count(*)::int from removed) as rows,
        (select count(*)::int from removed where unhandled) as unhandled,
        (select count(*)::int from walked) as read, last.received_at::text as "receivedAt", last.id
      from (select received_at, id from walked order by received_at desc, id desc limit 1) last`,
    values: [
      new Date(fromMs).toISOString(),
      new Date(toMs).toISOString(),
      arrayOf(webhookIds),
      ...(after === null ? [] : [after.receivedAt, after.id]),
    ],
  });
  if (found === undefined) return { rows: 0, unhandled: 0, next: null };
  const { rows, unhandled, read, receivedAt, id } = found;
  return { rows, unhandled, next: read < ROWS_MAX ? null : { receivedAt, id } };
}
