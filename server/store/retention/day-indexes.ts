/**
 * Indexes of events by webhook, on the days that are over: what a webhook received is found without reading the events of all others. Today's
 * partition has none, so storing an event costs the same as without them. An event takes 57 bytes of its index, and 0.7 us to sort it in.
 */
import { DAY_MS } from '../../base/time/durations.ts';
import { concatenated } from '../connect/place.ts';
import type { Database } from '../connect/pool.ts';
import { dayMs, LOCK_TIMEOUT } from './partitions.ts';

/** Events of the last seconds of a day are stored after its end. */
export const SETTLED_MS = 3_600_000;
/** A day of 20,000,000 events takes about 20 s. */
const BUILD_TIMEOUT_MS = 600_000;

const nameOf = (partition: string) => `${partition}_of_webhook`;

/** SQL: days of events whose partition lacks the index, such as `20260131`, oldest first. */
const withoutIndex = `
  select right(c.relname, 8) as day from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'events'::regclass and c.relname ~ '^events_[0-9]{8}$'
    and not exists (
      select from pg_index x join pg_class n on n.oid = x.indexrelid where x.indrelid = c.oid and n.relname = c.relname || '_of_webhook')
  order by 1`;

/**
 * Creates the missing indexes of days that ended an hour before `nowMs`, oldest first, and returns their names. While it is built, the partition
 * takes no writes. @param stopping true: returns before the next one.
 */
export async function indexPastDays(
  database: Database,
  nowMs: number,
  stopping: () => boolean = () => false,
): Promise<string[]> {
  const made: string[] = [];
  for (const { day } of await database.query<{ day: string }>({ text: withoutIndex })) {
    if (stopping() || dayMs(day) + DAY_MS + SETTLED_MS > nowMs) break;
    const partition = `events_${day}`;
    await database.transaction(async (query) => {
      await query({ text: `set local lock_timeout = '${LOCK_TIMEOUT}'` });
      await query({
        text: `create index if not exists ${nameOf(partition)} on ${partition} (webhook_id, received_at, id)`,
        timeoutMs: BUILD_TIMEOUT_MS,
      });
    });
    made.push(nameOf(partition));
  }
  return made;
}

/**
 * The first millisecond of the oldest day whose events have no index by webhook. Infinity: each day has one. 0 on a node of Citus, whose
 * days have none.
 */
export async function readUnindexedFrom({ query }: Pick<Database, 'query'>): Promise<number> {
  const rows = await query<{ day: string | null }>({
    name: 'unindexed-day',
    text: `select case relkind when 'p' then (${withoutIndex} limit 1) else '19700101' end as day from pg_class where oid = 'events'::regclass`,
    values: [],
    place: { each: concatenated },
  });
  return Math.min(...rows.map(({ day }) => (day === null ? Number.POSITIVE_INFINITY : dayMs(day))));
}
