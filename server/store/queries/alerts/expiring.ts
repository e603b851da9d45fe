/** What retention is about to remove although no agent has settled it, and what it could not archive. */
import { DAY_MS } from '../../../base/time/durations.ts';
import { EXPIRING_COUNTED_MAX } from '../../../model/conditions.ts';
import { summed } from '../../connect/place.ts';
import type { Database } from '../../connect/pool.ts';
import { firstKeptDay } from '../../retention/drop-partitions.ts';
import { partitionedTables } from '../../retention/partitions.ts';
import { readRetentionGroups } from '../../retention/retention.ts';
import { arrayOf } from '../../sql.ts';

/** Warning time before undelivered events are removed: a day, or a quarter of a retention that is shorter than four days. */
const WARNING_MS = DAY_MS;

interface Retention {
  retentionDays: number;
  keepUndeliveredDays: number;
}

/** Counts deliveries that retention removes unsettled within the warning time, up to EXPIRING_COUNTED_MAX. */
export async function countExpiring(
  database: Database,
  { retentionDays, keepUndeliveredDays }: Retention,
  nowMs: number,
): Promise<number> {
  const groups = await readRetentionGroups(database, retentionDays);
  const limitOf = (days: number) =>
    nowMs - (days + keepUndeliveredDays) * DAY_MS + Math.min(WARNING_MS, (days * DAY_MS) / 4);
  // A whole day is dropped when its last event is too old.
  const counts = [await countBefore(database, Math.floor(limitOf(retentionDays) / DAY_MS) * DAY_MS, null)];
  for (const { retentionDays: days, webhookIds } of groups)
    counts.push(await countBefore(database, limitOf(days), webhookIds));
  return Math.min(
    EXPIRING_COUNTED_MAX,
    counts.reduce((sum, count) => sum + count, 0),
  );
}

async function countBefore({ query }: Database, beforeMs: number, webhookIds: string[] | null): Promise<number> {
  const [row] = await query<{ count: number }>({
    text: `
      select count(*)::int as count from (
        select from deliveries
        where state in ('pending', 'leased') and received_at < $1::timestamptz ${webhookIds === null ? '' : 'and webhook_id = any ($2::uuid[])'}
        limit ${EXPIRING_COUNTED_MAX}
      ) d`,
    values: [new Date(beforeMs).toISOString(), ...(webhookIds === null ? [] : [arrayOf(webhookIds)])],
    place: { each: summed, lenient: true },
  });
  return row!.count;
}

/** Counts detached partitions that wait for the archive: they are not dropped before they are written. */
export async function countUnarchived(
  { query }: Database,
  { retentionDays }: Retention,
  nowMs: number,
): Promise<number> {
  const [row] = await query<{ count: number }>({
    text: `
      select count(*)::int as count from pg_class c
      where c.relkind = 'r' and c.relname ~ $1 and right(c.relname, 8) < $2 and c.relnamespace = current_schema()::regnamespace
        and not exists (select from pg_inherits where inhrelid = c.oid)`,
    values: [`^(${partitionedTables.join('|')})_[0-9]{8}$`, firstKeptDay(retentionDays, nowMs)],
    place: { each: summed, lenient: true },
  });
  return row!.count;
}
