/** Number and size of the stored events of webhooks, from the history: counting the events themselves would read all of them. */

import type { z } from 'zod';
import { DAY_MS } from '../../../base/time/durations.ts';
import type { webhookUsageSchema } from '../../../model/webhook-usage.ts';
import { summed } from '../../connect/place.ts';
import type { Database } from '../../connect/pool.ts';
import { ALL_WEBHOOKS_TIMEOUT_MS } from '../../many-webhooks.ts';
import { arrayOf, isoText } from '../../sql.ts';
import { HOUR } from './history.ts';
import { ACTIVE_WEBHOOKS_MAX } from './webhooks.ts';

type WebhookUsage = z.output<typeof webhookUsageSchema>;

/** What retention keeps. */
interface Kept {
  retentionDays: number;
  nowMs: number;
}

const keptFromMs = ({ retentionDays, nowMs }: Kept) => (Math.floor(nowMs / DAY_MS) - retentionDays) * DAY_MS;
/** SQL: from which hour on the events of the webhook `w` are kept; $1: those of all. */
const keptFrom = `date_trunc('hour', greatest($1::timestamptz, w.events_removed_before))`;

/**
 * Reads the ids of the webhooks with most bytes, and of others for a list of fewer with events. Reads a row for each webhook and hour:
 * 20,000,000 rows of 100,000 webhooks take 7 s, and a statement for each part of the ids five times as long.
 */
export async function readLargestWebhooks({ query }: Pick<Database, 'query'>, kept: Kept): Promise<string[]> {
  const rows = await query<{ id: string }>({
    name: 'largest-webhooks',
    text: `
      with summed as (
        select h.webhook_id as id, sum(h.bytes::float8) as bytes
        from history h join webhooks w on w.id = h.webhook_id
        where h.step = ${HOUR} and h.at >= $1 and h.at >= ${keptFrom}
        group by 1
      )
      select w.id
      from webhooks w left join summed s using (id)
      where w.deleted_at is null
      order by coalesce(s.bytes, 0) desc, w.id
      limit ${ACTIVE_WEBHOOKS_MAX}`,
    values: [new Date(keptFromMs(kept)).toISOString()],
    timeoutMs: ALL_WEBHOOKS_TIMEOUT_MS,
  });
  return rows.map(({ id }) => id);
}

/**
 * Adds up the hours of the history that retention keeps, of these webhooks, most bytes first. Exact to the hour, as long as
 * the history reaches back (400 days; it begins with migration 29). Reads a row for each webhook and hour: 100 webhooks over 30 days
 * take 350 to 1,100 ms on two cores with a load of 17, one webhook 3 ms.
 */
export function readWebhookUsage(
  { query }: Pick<Database, 'query'>,
  ids: readonly string[],
  kept: Kept,
): Promise<WebhookUsage[]> {
  return query<WebhookUsage>({
    name: 'webhook-usage',
    text: `
      select w.id as webhook_id, w.name, coalesce(kept.events, 0) as events, coalesce(kept.bytes, 0) as bytes,
        ${isoText('kept.oldest')} as oldest_at
      from webhooks w
      left join lateral (
        select sum(h.accepted)::float8 as events, sum(h.bytes)::float8 as bytes, min(h.at) filter (where h.accepted > 0) as oldest
        from history h
        where h.webhook_id = w.id and h.step = ${HOUR} and h.at >= ${keptFrom}
      ) kept on true
      where w.deleted_at is null and w.id = any ($2::uuid[])
      order by bytes desc, w.id
      limit ${ACTIVE_WEBHOOKS_MAX}`,
    values: [new Date(keptFromMs(kept)).toISOString(), arrayOf(ids)],
  });
}

const bytesOf = (table: string) =>
  `(select sum(pg_total_relation_size(relid))::float8 from pg_partition_tree('${table}'))`;

/** Bytes on disk of the two large tables, with indexes, over all partitions. Reads no rows. */
export async function readTableBytes({
  query,
}: Pick<Database, 'query'>): Promise<{ events: number; deliveries: number }> {
  const [row] = await query<{ events: number; deliveries: number }>({
    text: `
      select ${bytesOf('events')} as events, ${bytesOf('deliveries')} as deliveries`,
    place: { each: summed, lenient: true },
  });
  return row!;
}
