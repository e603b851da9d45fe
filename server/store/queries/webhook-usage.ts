/** Number and size of the stored events of webhooks, from the history: counting the events themselves would read all of them. */

import type { z } from 'zod';
import type { webhookUsageSchema } from '../../model/webhook-usage.ts';
import { DAY_MS } from '../partitions.ts';
import { summed } from '../place.ts';
import type { Database } from '../pool.ts';
import { arrayOf, isoText } from '../sql.ts';
import { HOUR } from './history.ts';
import { ACTIVE_WEBHOOKS_MAX } from './webhooks.ts';

type WebhookUsage = z.output<typeof webhookUsageSchema>;

/** SQL: from which hour on the events of the webhook `w` are kept; $1: those of all. */
const keptFrom = `date_trunc('hour', greatest($1::timestamptz, w.events_removed_before))`;

/** SQL: the ids of the webhooks with most bytes, and of others for a list of fewer with events. One pass over the history, not one a webhook. */
const largest = `
  (select w.id
   from history h join webhooks w on w.id = h.webhook_id
   where h.step = ${HOUR} and h.at >= $1 and h.at >= ${keptFrom} and w.deleted_at is null
   group by w.id order by sum(h.bytes) desc, w.id limit ${ACTIVE_WEBHOOKS_MAX})
  union
  (select id from webhooks where deleted_at is null order by id limit ${ACTIVE_WEBHOOKS_MAX})`;

/**
 * Adds up the hours of the history that retention keeps, of these webhooks (null: of all), most bytes first. Exact to the hour, as long as
 * the history reaches back (400 days; it begins with migration 29). Reads a row for each webhook and hour: 100 webhooks over 30 days
 * take 350 to 1,100 ms on two cores with a load of 17, one webhook 3 ms.
 */
export function readWebhookUsage(
  { query }: Pick<Database, 'query'>,
  ids: readonly string[] | null,
  { retentionDays, nowMs }: { retentionDays: number; nowMs: number },
): Promise<WebhookUsage[]> {
  const keptFromMs = (Math.floor(nowMs / DAY_MS) - retentionDays) * DAY_MS;
  return query<WebhookUsage>({
    name: ids === null ? 'largest-webhooks' : 'webhook-usage',
    text: `
      ${ids === null ? `with chosen as materialized (${largest})` : ''}
      select w.id as webhook_id, w.name, coalesce(kept.events, 0) as events, coalesce(kept.bytes, 0) as bytes,
        ${isoText('kept.oldest')} as oldest_at
      from webhooks w
      left join lateral (
        select sum(h.accepted)::float8 as events, sum(h.bytes)::float8 as bytes, min(h.at) filter (where h.accepted > 0) as oldest
        from history h
        where h.webhook_id = w.id and h.step = ${HOUR} and h.at >= ${keptFrom}
      ) kept on true
      where w.deleted_at is null and w.id ${ids === null ? 'in (select id from chosen)' : '= any ($2::uuid[])'}
      order by bytes desc, w.id
      limit ${ACTIVE_WEBHOOKS_MAX}`,
    values: [new Date(keptFromMs).toISOString(), ...(ids === null ? [] : [arrayOf(ids)])],
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
