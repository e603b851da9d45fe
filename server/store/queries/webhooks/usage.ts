/**
 * What webhooks received: the last event and rejection of each, and the number and size of its stored events. These come from webhook_state:
 * counting the events themselves would read all of them.
 */
import type { z } from 'zod';
import { DAY_MS } from '../../../base/time/durations.ts';
import { webhookActivitySchema, type webhookUsageSchema } from '../../../model/history.ts';
import { summed } from '../../connect/place.ts';
import type { Queries } from '../../connect/pool.ts';
import { inParts } from '../../retention/in-parts.ts';
import { arrayOf, isoText, selectList } from '../../sql.ts';
import { HOUR } from './history.ts';
import { lastEventAt } from './state.ts';

/** Limit on the webhooks in one result; equals the page size of the webhook list. */
export const ACTIVE_WEBHOOKS_MAX = 200;

const activity = selectList(webhookActivitySchema, 'w', {
  webhook_id: 'w.id',
  last_event_at: isoText(lastEventAt),
  last_rejection_at: `(select ${isoText('r.received_at')} from rejections r where r.webhook_id = w.id order by r.id desc limit 1)`,
});
type WebhookActivity = z.output<typeof webhookActivitySchema>;

/**
 * Reads the last event and rejection of these webhooks (null: of all), newest webhook first, at most ACTIVE_WEBHOOKS_MAX. Unknown and deleted
 * webhooks are omitted.
 */
export function readWebhookActivity({ query }: Queries, ids: readonly string[] | null): Promise<WebhookActivity[]> {
  return query<WebhookActivity>({
    name: ids === null ? 'activity-of-newest' : 'webhook-activity',
    plan: 'once',
    text: `
      select ${activity}
      from webhooks w
      where w.deleted_at is null ${ids === null ? '' : 'and w.id = any ($1::uuid[])'}
      order by w.created_at desc, w.id desc
      limit ${ACTIVE_WEBHOOKS_MAX}`,
    values: ids === null ? [] : [arrayOf(ids)],
  });
}

type WebhookUsage = z.output<typeof webhookUsageSchema>;

/** Webhooks whose state one statement reads, to subtract removed events. */
const SUBTRACTED_FROM = 1_000;

/** SQL: the largest webhooks, and the newest ones for a list that has fewer webhooks with events. */
const largest = `
  (select webhook_id as id from webhook_state order by bytes desc, webhook_id limit ${ACTIVE_WEBHOOKS_MAX})
  union (select id from webhooks where deleted_at is null order by created_at desc, id limit ${ACTIVE_WEBHOOKS_MAX})`;

/** Reads what webhooks have stored, most bytes first, exact to the hour after `subtractRemovedUsage`. @param ids null: the largest webhooks */
export function readWebhookUsage({ query }: Queries, ids: readonly string[] | null): Promise<WebhookUsage[]> {
  return query<WebhookUsage>({
    text: `
      with chosen as materialized (${ids === null ? largest : 'select unnest($1::uuid[]) as id'})
      select w.id as webhook_id, w.name, coalesce(s.events, 0)::float8 as events, coalesce(s.bytes, 0)::float8 as bytes,
        ${isoText('oldest.at')} as oldest_at
      from chosen join webhooks w using (id)
      left join webhook_state s on s.webhook_id = w.id
      left join lateral (
        select at from history h
        where h.webhook_id = w.id and h.step = ${HOUR} and h.at >= s.kept_from and h.accepted > 0
        order by at limit 1
      ) oldest on true
      where w.deleted_at is null
      order by bytes desc, w.id
      limit ${ACTIVE_WEBHOOKS_MAX}`,
    values: ids === null ? [] : [arrayOf(ids)],
  });
}

/**
 * Subtracts the events that retention has removed since the last call, by the hours of the history, which is kept for 400 days. Counts that
 * are added concurrently are kept. Counting all kept hours again took thirty times as long (bench/NOTES.md).
 * @param stopping see inParts
 */
export async function subtractRemovedUsage(
  { query }: Queries,
  { retentionDays, nowMs }: { retentionDays: number; nowMs: number },
  stopping?: () => boolean,
): Promise<void> {
  const keptFrom = new Date((Math.floor(nowMs / DAY_MS) - retentionDays) * DAY_MS).toISOString();
  let after = '00000000-0000-0000-0000-000000000000';
  await inParts(async () => {
    const [last] = await query<{ id: string }>({
      text: `
        with part as materialized (
          select * from webhook_state where webhook_id > $2 order by webhook_id limit ${SUBTRACTED_FROM}
        ), due as materialized (
          select s.webhook_id, s.kept_from as counted_from, k.kept_from
          from part s join webhooks w on w.id = s.webhook_id
          cross join lateral (
            select date_trunc('hour', greatest($1::timestamptz, w.events_removed_before)) as kept_from
          ) k
          where s.kept_from < k.kept_from
        ), locked as materialized (
          select s.webhook_id from webhook_state s where s.webhook_id in (select webhook_id from due) order by s.webhook_id for update
        ), removed as materialized (
          select d.webhook_id, d.kept_from, h.events, h.bytes
          from due d join locked using (webhook_id)
          cross join lateral (
            select coalesce(sum(accepted), 0) as events, coalesce(sum(bytes), 0) as bytes from history
            where webhook_id = d.webhook_id and step = ${HOUR} and at >= d.counted_from and at < d.kept_from
          ) h
        ), updated as (
          update webhook_state s
          set events = greatest(s.events - r.events, 0), bytes = greatest(s.bytes - r.bytes, 0), kept_from = r.kept_from
          from removed r where s.webhook_id = r.webhook_id
        )
        select webhook_id as id from part order by webhook_id desc limit 1`,
      values: [keptFrom, after],
    });
    if (last !== undefined) after = last.id;
    return last !== undefined;
  }, stopping);
}

const bytesOnDisk = (table: string) =>
  `(select sum(pg_total_relation_size(relid))::float8 from pg_partition_tree('${table}'))`;

/** Bytes on disk of the two large tables, with indexes, over all partitions. Reads no rows. */
export async function readTableBytes({ query }: Queries): Promise<{ events: number; deliveries: number }> {
  const [row] = await query<{ events: number; deliveries: number }>({
    text: `select ${bytesOnDisk('events')} as events, ${bytesOnDisk('deliveries')} as deliveries`,
    place: { each: summed, lenient: true },
  });
  return row!;
}
