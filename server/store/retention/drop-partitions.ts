/** Drops the days older than RETENTION_DAYS as whole partitions, after they were archived where an archive is configured. */
import { z } from 'zod';
import { DAY_MS } from '../../base/time/durations.ts';
import { advisoryLocks } from '../advisory-locks.ts';
import type { Database, Query } from '../connect/pool.ts';
import { DatabaseUnavailable, expected } from '../connect/unavailable.ts';
import { inParts } from './in-parts.ts';
import { boundsOfDay, LOCK_TIMEOUT, type PartitionedTable, parents, partitionedTables } from './partitions.ts';
import { deleteUnsettled, endUnsettled, hasUnsettled } from './unsettled.ts';

/** Writes the rows of a detached partition to a file, in a transaction. A rejection keeps the partition. */
export type Archive = (partition: string, query: Query) => Promise<void>;

interface Dropped {
  /** Names of the dropped partitions. */
  partitions: string[];
  /** Deliveries in them that were not settled. */
  unhandled: number;
  /** Days, such as `20260131`, that are kept for their undelivered events. */
  keptDays: string[];
  /** A partition that an open transaction, such as a backup, has read. This partition and those after it stay until the next run. */
  busy: string | null;
  /** Detached partitions that could not be archived; the next run tries again. */
  unarchived: { partition: string; reason: string }[];
}

export interface DropOptions {
  /** Days that a day with pending or leased deliveries is kept longer. */
  keepUndeliveredDays?: number;
  archive?: Archive | null;
  detachTimeoutMs?: number;
  /** True: returns before the next partition. */
  stopping?: (() => boolean) | undefined;
  /** A cell on Citus: for what drops tables, which goes through the coordinator. */
  tables?: Database;
}

/** How long a detach waits for open transactions. A backup may take hours, and the rest of the maintenance does not wait for it. */
const DETACH_TIMEOUT_MS = 10_000;

const QUERY_CANCELED = '57014';

const oldPartition = (table: PartitionedTable) =>
  z.object({
    name: z.string().regex(new RegExp(`^${table}_[0-9]{8}$`)),
    attached: z.boolean(),
    pending: z.boolean().describe('a DETACH of it was interrupted'),
  });
type OldPartition = z.output<ReturnType<typeof oldPartition>>;

/** First day that is kept, such as `20260131`. */
export function firstKeptDay(retentionDays: number, nowMs: number): string {
  return new Date(nowMs - retentionDays * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '');
}

/**
 * Drops the partitions of days that ended more than `retentionDays` ago. DETACH CONCURRENTLY waits for old transactions without blocking other
 * sessions; an interrupted detach is completed by the next run. A day with undelivered events is kept whole.
 */
export async function dropOldPartitions(
  database: Database,
  retentionDays: number,
  nowMs: number,
  {
    keepUndeliveredDays = 0,
    archive = null,
    detachTimeoutMs = DETACH_TIMEOUT_MS,
    stopping = () => false,
    tables = database,
  }: DropOptions = {},
): Promise<Dropped> {
  const dropped: Dropped = { partitions: [], unhandled: 0, keptDays: [], busy: null, unarchived: [] };
  const lastDay = firstKeptDay(retentionDays + keepUndeliveredDays, nowMs);
  // Deliveries first: a claim would lease a delivery without its event, and never return it.
  const onCitus = tables !== database;
  for (const table of [...partitionedTables].reverse()) {
    const isFlat = onCitus && table === 'deliveries';
    const old = await oldPartitions(tables, isFlat ? 'events' : table, firstKeptDay(retentionDays, nowMs));
    for (const partition of old) {
      if (stopping()) return dropped;
      const { attached, pending } = partition;
      const day = partition.name.slice(-8);
      if (isFlat) partition.name = `deliveries_${day}`;
      if (table === 'deliveries' && attached && !pending && day >= lastDay && (await hasUnsettled(database, day)))
        dropped.keptDays.push(day);
      if (dropped.keptDays.includes(day)) continue;
      if (table === 'deliveries' && attached && !pending) {
        const ended = await endUnsettled(database, day, stopping);
        dropped.unhandled += ended.rows;
        if (!ended.whole) return dropped;
      }
      const { name } = partition;
      if (isFlat) {
        const reason = await removeDay(database, name, archive);
        if (reason === null) continue;
        dropped.unarchived.push({ partition: name, reason });
        dropped.keptDays.push(day);
        continue;
      }
      const how = onCitus ? '' : pending ? 'finalize' : 'concurrently';
      if (attached && !(await detach(tables, table, name, how, detachTimeoutMs))) return { ...dropped, busy: name };
      const outcome = await archiveAndDrop(tables, name, archive);
      if (outcome.kind === 'read') return { ...dropped, busy: name };
      if (outcome.kind === 'failed') dropped.unarchived.push({ partition: name, reason: outcome.reason });
      if (outcome.kind !== 'dropped') continue;
      dropped.partitions.push(name);
      // Deliveries of replays since the day's deliveries were dropped: a claim would lease them, and never return them.
      if (table === 'events') dropped.unhandled += (await deleteUnsettled(database, day)).rows;
    }
  }
  return dropped;
}

/**
 * Detaches a partition. Returns false if an open transaction has read the partition; then cancels the statement, which would otherwise wait in
 * the server for the end of that transaction.
 */
async function detach(
  database: Database,
  table: PartitionedTable,
  name: string,
  how: string,
  timeoutMs: number,
): Promise<boolean> {
  const text = `alter table ${parents[table]} detach partition ${name} ${how}`;
  try {
    await database.query({ text, timeoutMs });
    return true;
  } catch (error) {
    const { code } = error as { code?: string };
    // Another machine that waited for the same transaction has cancelled this statement with its own.
    if (code === QUERY_CANCELED) return false;
    if (!(error instanceof DatabaseUnavailable) || code !== undefined) throw error;
    const waiting = await database.query({
      text: `select pg_cancel_backend(pid) from pg_stat_activity
             where query = $1 and datname = current_database() and usename = current_user and wait_event_type = 'Lock'`,
      values: [text],
    });
    if (waiting.length === 0) throw error;
    return false;
  }
}

/** Partitions of days before `firstKept`, also detached ones that were not dropped. Their names become names of files, see `Archive`. */
async function oldPartitions({ query }: Database, table: PartitionedTable, firstKept: string): Promise<OldPartition[]> {
  const rows = await query<OldPartition>({
    text: `select c.relname as name, i.inhrelid is not null as attached, coalesce(i.inhdetachpending, false) as pending
           from pg_class c left join pg_inherits i on i.inhrelid = c.oid
           where c.relkind = 'r' and c.relname ~ $1 and right(c.relname, 8) < $2 and c.relnamespace = (select relnamespace from pg_class where oid = $3::regclass)
           order by pending desc, 1`,
    values: [`^${table}_[0-9]{8}$`, firstKept, parents[table]],
  });
  return expected(z.array(oldPartition(table)), rows);
}

/** `elsewhere`: another machine archives. `read`: a transaction has read the table since it was detached. */
type Archived = { kind: 'dropped' | 'elsewhere' | 'read' } | { kind: 'failed'; reason: string };

const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Archives and drops in one transaction. Between its statements it holds no snapshot, so that vacuum and claims are not slowed down. One
 * machine archives at a time: the lock is released when the partition is dropped, or when the session of that machine ends.
 */
async function archiveAndDrop(database: Database, name: string, archive: Archive | null): Promise<Archived> {
  try {
    return await database.transaction(async (query): Promise<Archived> => {
      await query({
        text: `set local idle_in_transaction_session_timeout = 0; set local lock_timeout = '${LOCK_TIMEOUT}'`,
      });
      if (archive !== null) {
        const [row] = await query<{ locked: boolean }>({
          text: `select pg_try_advisory_xact_lock(${advisoryLocks.archive}) and to_regclass('${name}') is not null as locked`,
        });
        if (!row!.locked) return { kind: 'elsewhere' };
        await archive(name, query);
      }
      await query({ text: `drop table ${name}` });
      return { kind: 'dropped' };
    });
  } catch (error) {
    if ((error as { code?: string }).code === LOCK_NOT_AVAILABLE) return { kind: 'read' };
    if (archive === null) throw error;
    return { kind: 'failed', reason: (error as Error).message };
  }
}

const ROWS_MAX = 10_000;

/** A cell on Citus: archives and deletes the finished deliveries of a day, which are in one table. Returns why the archive failed, or null. */
async function removeDay(database: Database, name: string, archive: Archive | null): Promise<string | null> {
  const [from, to] = boundsOfDay(name.slice(-8));
  const ofDay = `select * from deliveries_finished where received_at >= '${from}' and received_at < '${to}'`;
  try {
    if (archive !== null)
      await database.transaction(async (query) => {
        await query({ text: 'set local idle_in_transaction_session_timeout = 0' });
        await query({ text: `create temp view ${name} as ${ofDay}` });
        await archive(name, query);
        await query({ text: `drop view ${name}` });
      });
  } catch (error) {
    return (error as Error).message;
  }
  const text = `
    with u as materialized (${ofDay} order by received_at, id limit ${ROWS_MAX})
    delete from deliveries_finished d using u where d.received_at = u.received_at and d.id = u.id and d.webhook_id = u.webhook_id
    returning 1`;
  await inParts(async () => (await database.query({ text })).length > 0);
  return null;
}
