/** Retention row by row: events of webhooks with a shorter retention, and expired keys. Days older than RETENTION_DAYS are dropped whole. */
import { DAY_MS } from '../../base/time/durations.ts';
import type { Database, Queries } from '../connect/pool.ts';
import { arrayOf } from '../sql.ts';
import type { DropOptions } from './drop-partitions.ts';
import { inParts } from './in-parts.ts';
import { readHorizon } from './partitions.ts';

/** Limit on the expired keys deleted in one statement: short locks, little to vacuum at a time. */
const KEYS_AT_A_TIME = 10_000;

interface Expired {
  events: number;
  deliveries: number;
  /** Number of these deliveries that were not settled. */
  unhandled: number;
}

/**
 * Deletes events and deliveries of webhooks whose own retention_days is lower than RETENTION_DAYS, day by day from the oldest, with pauses. An
 * interrupted run resumes at its day. Half of a million events takes 34 s (bench/NOTES.md). Undelivered events are kept for
 * `keepUndeliveredDays` more, so there are two passes, each with its own progress.
 */
export async function removeExpiredEvents(
  database: Database,
  retentionDays: number,
  nowMs: number,
  { keepUndeliveredDays = 0, stopping = () => false, tables = database }: Omit<DropOptions, 'archive'> = {},
): Promise<Expired> {
  const expired: Expired = { events: 0, deliveries: 0, unhandled: 0 };
  const horizon = await readHorizon(tables);
  if (horizon === null) return expired;
  for (const group of await readRetentionGroups(database, retentionDays)) {
    const keptFromMs = nowMs - group.retentionDays * DAY_MS;
    const lastMs = keptFromMs - keepUndeliveredDays * DAY_MS;
    // Events of a spool that is drained late move only the first mark back.
    const allFromMs = Math.min(group.undeliveredBeforeMs ?? 0, group.removedBeforeMs ?? 0);
    const passes: Pass[] = [{ of: 'all', fromMs: allFromMs, toMs: lastMs }];
    if (keepUndeliveredDays > 0)
      passes.push({ of: 'delivered', fromMs: Math.max(group.removedBeforeMs ?? 0, lastMs), toMs: keptFromMs });
    for (const pass of passes) {
      const from = { ...pass, fromMs: Math.max(horizon.fromMs, pass.fromMs) };
      if (!(await removePass(database, group.webhookIds, from, expired, stopping))) return expired;
    }
  }
  return expired;
}

interface Pass {
  /** `delivered`: events without pending and leased deliveries. */
  of: 'all' | 'delivered';
  fromMs: number;
  toMs: number;
}

/** Resolves with false if it was stopped before the end. */
async function removePass(
  database: Database,
  webhookIds: readonly string[],
  { of, fromMs: startMs, toMs: endMs }: Pass,
  expired: Expired,
  stopping: () => boolean,
): Promise<boolean> {
  for (let fromMs = startMs; fromMs < endMs; ) {
    const toMs = Math.min(endMs, (Math.floor(fromMs / DAY_MS) + 1) * DAY_MS);
    // Deliveries first: a claim would lease a delivery without its event, and never return it.
    for (const table of ['deliveries', 'events'] as const) {
      const removed = await removeSpan(database, table, webhookIds, { of, fromMs, toMs }, stopping);
      expired[table] += removed.rows;
      expired.unhandled += removed.unhandled;
      if (!removed.whole) return false;
    }
    await recordRemovedBefore(database, webhookIds, of, toMs);
    fromMs = toMs;
  }
  return true;
}

/** `whole`: false if it was stopped before the end. */
async function removeSpan(
  database: Database,
  table: 'events' | 'deliveries',
  webhookIds: readonly string[],
  span: Pass,
  stopping: () => boolean,
): Promise<{ rows: number; unhandled: number; whole: boolean }> {
  const total = { rows: 0, unhandled: 0, whole: false };
  if (stopping()) return total;
  let after: Cursor | null = null;
  const whole = await inParts(async () => {
    const removed = await deleteExpiredRows(database, table, webhookIds, span, after);
    total.rows += removed.rows;
    total.unhandled += removed.unhandled;
    after = removed.next;
    return after !== null;
  }, stopping);
  return { ...total, whole };
}

/** Deletes expired dedupe keys. Returns how many. @param stopping see inParts */
export async function deleteExpiredKeys(database: Database, stopping?: () => boolean): Promise<number> {
  let deleted = 0;
  await inParts(async () => {
    const rows = await database.query({
      text: `delete from dedupe_keys
             where (webhook_id, key) in (
               select webhook_id, key from dedupe_keys where expires_at < now() order by expires_at limit $1 for update skip locked)
             returning 1`,
      values: [KEYS_AT_A_TIME],
    });
    deleted += rows.length;
    return rows.length === KEYS_AT_A_TIME;
  }, stopping);
  return deleted;
}

/** Limit on the rows that one statement reads and deletes: 25 ms, short locks, little to vacuum at a time. */
const ROWS_MAX = 5_000;

/** Webhooks with the same retention and the same removal progress. */
interface RetentionGroup {
  webhookIds: string[];
  retentionDays: number;
  /** Unix milliseconds; null: nothing removed yet. */
  removedBeforeMs: number | null;
  /** The time up to which undelivered events were removed. */
  undeliveredBeforeMs: number | null;
}

/** Reads webhooks, including deleted ones, that keep events for less than `retentionDays`. */
export function readRetentionGroups({ query }: Queries, retentionDays: number): Promise<RetentionGroup[]> {
  return query<RetentionGroup>({
    text: `select array_agg(id::text) as "webhookIds", retention_days as "retentionDays",
             ${milliseconds('events_removed_before')} as "removedBeforeMs", ${milliseconds('undelivered_removed_before')} as "undeliveredBeforeMs"
           from webhooks where retention_days < $1
           group by retention_days, events_removed_before, undelivered_removed_before
           order by retention_days, events_removed_before, undelivered_removed_before`,
    values: [retentionDays],
  });
}

const milliseconds = (time: string) => `(extract(epoch from ${time}) * 1000)::float8`;

/** Records that the events of these webhooks received before a time (Unix milliseconds) were removed; `all`: undelivered ones too. */
async function recordRemovedBefore(
  { query }: Queries,
  webhookIds: readonly string[],
  of: Pass['of'],
  beforeMs: number,
): Promise<void> {
  await query({
    text: `update webhooks set events_removed_before = greatest(events_removed_before, $2::timestamptz)
             ${of === 'all' ? ', undelivered_removed_before = $2::timestamptz' : ''}
           where id = any ($1::uuid[])`,
    values: [arrayOf(webhookIds), new Date(beforeMs).toISOString()],
  });
}

/**
 * SQL that moves the marks of webhooks back to the oldest event that a statement stores. Otherwise retention would not look at events older
 * than the marks, and keep them for RETENTION_DAYS.
 * @param stored relation with the webhook_id and received_at of events that a statement stores
 */
export function moveMarksBack(stored: string): string {
  return `
    update webhooks set events_removed_before = oldest.received_at
    from (select webhook_id, min(received_at) as received_at from ${stored} group by webhook_id) oldest
    where webhooks.id = oldest.webhook_id and events_removed_before > oldest.received_at`;
}

interface Cursor {
  receivedAt: string;
  id: string;
}

/**
 * Deletes rows of these webhooks received from `fromMs` (inclusive) to `toMs` (exclusive), Unix milliseconds, among the first ROWS_MAX
 * rows after `after`. Walks the primary key, which contains webhook_id: rows of other webhooks cost one index entry each.
 */
async function deleteExpiredRows(
  { query }: Queries,
  table: 'events' | 'deliveries',
  webhookIds: readonly string[],
  { of, fromMs, toMs }: Pass,
  after: Cursor | null,
): Promise<{ rows: number; unhandled: number; next: Cursor | null }> {
  const [found] = await query<{ rows: number; unhandled: number; read: number } & Cursor>({
    text: `
      with walked as materialized (
        select received_at, id, webhook_id from ${table}
        where received_at >= $1 and received_at < $2 ${after === null ? '' : 'and (received_at, id) > ($4::timestamptz, $5::uuid)'}
        order by received_at, id limit ${ROWS_MAX}
      ), removed as (
        delete from ${table} t using walked w
        where w.webhook_id = any ($3::uuid[]) and t.received_at >= $1 and t.received_at < $2
          and t.received_at = w.received_at and t.id = w.id and t.webhook_id = w.webhook_id
          ${of === 'all' ? '' : `and ${delivered[table]}`}
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

/** Conditions on a row `t`. The settled deliveries of an event are deleted before the event is. */
const delivered = {
  deliveries: "t.state not in ('pending', 'leased')",
  events: `not exists (
    select from deliveries d where d.received_at = t.received_at and d.event_id = t.id and d.webhook_id = t.webhook_id)`,
} as const;
