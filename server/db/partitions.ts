/** Partitions of `events`: one a day (UTC), made days ahead, so that midnight finds its table ready. */
import { SCHEMA_LOCK } from './migrate.ts';
import type { Database } from './pool.ts';

export const DAY_MS = 86_400_000;

/** Clocks of several machines differ: yesterday is kept open too. */
const DAYS_BEHIND = 1;
const DAYS_AHEAD = 7;
/** ATTACH waits for nobody longer than this; the next hour tries again. */
const LOCK_TIMEOUT = '2s';

/** The time span that has partitions, in Unix milliseconds; `toMs` is the first one that has none. */
export interface Horizon {
  fromMs: number;
  toMs: number;
}

/**
 * Makes the missing partitions around `nowMs`; returns their names.
 *
 * CREATE standalone and ATTACH, not CREATE .. PARTITION OF: the latter takes an exclusive lock on `events` that waits
 * behind pg_dump, and every COPY then waits behind it.
 */
export async function makePartitions(database: Database, nowMs: number): Promise<string[]> {
  const today = Math.floor(nowMs / DAY_MS);
  const wanted = Array.from({ length: DAYS_BEHIND + DAYS_AHEAD + 1 }, (_, i) => today - DAYS_BEHIND + i);
  const made: string[] = [];
  for (const day of wanted) if (await makePartition(database, day * DAY_MS)) made.push(partitionName(day * DAY_MS));
  return made;
}

/** The span of the partitions that exist; null when there are none. Assumes no gaps, as `makePartitions` leaves none. */
export async function readHorizon(database: Database): Promise<Horizon | null> {
  const [row] = await database.query<{ first: string | null; last: string | null }>({
    name: 'partition-horizon',
    text: `select min(relname::text) as first, max(relname::text) as last
           from pg_inherits join pg_class on pg_class.oid = inhrelid
           where inhparent = 'events'::regclass and relname ~ '^events_[0-9]{8}$'`,
  });
  if (!row?.first || !row.last) return null;
  return { fromMs: dayOfPartition(row.first), toMs: dayOfPartition(row.last) + DAY_MS };
}

/** `events_20260131` for any millisecond of that day. */
export function partitionName(ms: number): string {
  return `events_${new Date(ms).toISOString().slice(0, 10).replaceAll('-', '')}`;
}

function dayOfPartition(name: string): number {
  return Date.parse(name.replace(/^events_(\d{4})(\d{2})(\d{2})$/, '$1-$2-$3T00:00:00Z'));
}

function makePartition(database: Database, dayMs: number): Promise<boolean> {
  const name = partitionName(dayMs);
  const bound = (ms: number) => `'${new Date(ms).toISOString()}'`;
  return database.transaction(async (query) => {
    await query({ text: 'select pg_advisory_xact_lock($1)', values: [SCHEMA_LOCK] });
    const [row] = await query<{ exists: boolean }>({
      text: 'select to_regclass($1) is not null as exists',
      values: [name],
    });
    if (row?.exists) return false;
    await query({ text: `set local lock_timeout = '${LOCK_TIMEOUT}'` });
    await query({ text: `create table ${name} (like events including all)` });
    await query({
      text: `alter table events attach partition ${name} for values from (${bound(dayMs)}) to (${bound(dayMs + DAY_MS)})`,
    });
    return true;
  });
}
