/**
 * Retention: days older than RETENTION_DAYS are removed by dropping whole partitions. Events of webhooks with a shorter retention, and
 * expired keys, are deleted in small batches.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { DAY_MS, partitionedTables, readHorizon } from './partitions.ts';
import type { Database } from './pool.ts';
import { arrayOf, isoText } from './queries/sql.ts';

/** Limit on the expired keys deleted in one statement: short locks, little to vacuum at a time. */
const KEYS_AT_A_TIME = 10_000;

export interface Dropped {
  /** Names of the dropped partitions. */
  partitions: string[];
  /** Deliveries in them that were not settled. */
  unhandled: number;
}

/**
 * Drops the partitions of days that ended more than `retentionDays` ago. DETACH CONCURRENTLY waits for old transactions without
 * blocking other sessions; an interrupted detach is completed by the next run.
 */
export async function dropOldPartitions(database: Database, retentionDays: number, nowMs: number): Promise<Dropped> {
  const keptFrom = new Date(nowMs - retentionDays * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '');
  const dropped: Dropped = { partitions: [], unhandled: 0 };
  // Deliveries first: a delivery without its event would be leased but never returned by a claim.
  for (const table of [...partitionedTables].reverse()) {
    const old = await database.query<{ name: string; attached: boolean; pending: boolean }>({
      text: `select c.relname as name, i.inhrelid is not null as attached, coalesce(i.inhdetachpending, false) as pending
             from pg_class c left join pg_inherits i on i.inhrelid = c.oid
             where c.relkind = 'r' and c.relname ~ $1 and right(c.relname, 8) < $2 and c.relnamespace = (select relnamespace from pg_class where oid = $3::regclass)
             order by pending desc, 1`,
      values: [`^${table}_[0-9]{8}$`, keptFrom, table],
    });
    for (const { name, attached, pending } of old) {
      if (attached)
        await database.query({
          text: `alter table ${table} detach partition ${name} ${pending ? 'finalize' : 'concurrently'}`,
        });
      if (table === 'deliveries') dropped.unhandled += await countUnsettled(database, name);
      await database.query({ text: `drop table ${name}` });
      dropped.partitions.push(name);
    }
  }
  return dropped;
}

/** Counts unsettled deliveries of one detached partition through its index of claimable deliveries. */
async function countUnsettled(database: Database, partition: string): Promise<number> {
  const [row] = await database.query<{ count: number }>({
    text: `select count(*)::int as count from ${partition} where state in ('pending', 'leased')`,
  });
  return row!.count;
}

interface Expired {
  events: number;
  deliveries: number;
  /** Of these deliveries, those that were not settled. */
  unhandled: number;
}

/**
 * Deletes events and deliveries of webhooks whose own retention_days is lower than `retentionDays` (RETENTION_DAYS), day by day
 * from the oldest. Each statement reads a bounded number of rows and is followed by a pause as long as the statement. Progress is
 * recorded after each day, so an interrupted run resumes there. Deleting half of a million events takes 34 s (30,000 per second outside
 * the pauses, which take half of the time). Concurrent inserts slow down by 7 %. An hour later there is nothing to read: 4 ms.
 * @param stopping true: return before the next statement.
 */
export async function removeExpiredEvents(
  database: Database,
  retentionDays: number,
  nowMs: number,
  stopping: () => boolean = () => false,
): Promise<Expired> {
  const expired: Expired = { events: 0, deliveries: 0, unhandled: 0 };
  const horizon = await readHorizon(database);
  if (horizon === null) return expired;
  for (const group of await readRetentionGroups(database, retentionDays)) {
    const keptFromMs = nowMs - group.retentionDays * DAY_MS;
    let fromMs = Math.max(horizon.fromMs, group.removedBeforeMs ?? 0);
    while (fromMs < keptFromMs) {
      const toMs = Math.min(keptFromMs, (Math.floor(fromMs / DAY_MS) + 1) * DAY_MS);
      // Deliveries first: a delivery without its event would be leased but never returned by a claim.
      for (const table of ['deliveries', 'events'] as const) {
        const removed = await removeSpan(database, table, group.webhookIds, { fromMs, toMs }, stopping);
        expired[table] += removed.rows;
        expired.unhandled += removed.unhandled;
        if (!removed.whole) return expired;
      }
      await recordRemovedBefore(database, group.webhookIds, toMs);
      fromMs = toMs;
    }
  }
  return expired;
}

/** `whole`: false if it was stopped before the end. */
async function removeSpan(
  database: Database,
  table: 'events' | 'deliveries',
  webhookIds: readonly string[],
  span: { fromMs: number; toMs: number },
  stopping: () => boolean,
): Promise<{ rows: number; unhandled: number; whole: boolean }> {
  const total = { rows: 0, unhandled: 0, whole: true };
  let after: Awaited<ReturnType<typeof deleteExpiredRows>>['next'] = null;
  do {
    if (stopping()) return { ...total, whole: false };
    const startedMs = performance.now();
    const removed = await deleteExpiredRows(database, table, webhookIds, span, after);
    total.rows += removed.rows;
    total.unhandled += removed.unhandled;
    after = removed.next;
    if (after !== null) await delay(performance.now() - startedMs);
  } while (after !== null);
  return total;
}

/** Deletes expired dedupe keys. Returns how many. */
export async function deleteExpiredKeys(database: Database): Promise<number> {
  let deleted = 0;
  for (;;) {
    const rows = await database.query({
      name: 'delete-expired-keys',
      text: `delete from dedupe_keys
             where (webhook_id, key) in (
               select webhook_id, key from dedupe_keys where expires_at < now() order by expires_at limit $1 for update skip locked)
             returning 1`,
      values: [KEYS_AT_A_TIME],
    });
    deleted += rows.length;
    if (rows.length < KEYS_AT_A_TIME) return deleted;
  }
}

/** Limit on the rows that one statement reads and deletes: 25 ms, short locks, little to vacuum at a time. */
const ROWS_MAX = 5_000;

/** Webhooks with the same retention and the same removal progress. */
interface RetentionGroup {
  webhookIds: string[];
  retentionDays: number;
  /** Unix milliseconds; null: nothing removed yet. */
  removedBeforeMs: number | null;
}

/** Reads webhooks, including deleted ones, that keep events for less than `retentionDays`. */
async function readRetentionGroups(
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
async function recordRemovedBefore(
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
async function deleteExpiredRows(
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
