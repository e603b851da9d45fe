/** History: counts of requests a minute, a quarter of an hour and an hour. The row with ALL_WEBHOOKS is the sum, so that no page adds up webhooks. */
import type { z } from 'zod';
import {
  type HistoryCounts,
  HOURS_KEPT_DAYS,
  historyColumns,
  MINUTES_KEPT_HOURS,
  noCounts,
  QUARTER_SECONDS,
  type WebhookQuarter,
  type webhookHistorySchema,
} from '../../../model/history.ts';
import type { Database } from '../../connect/pool.ts';
import { ALL_WEBHOOKS_TIMEOUT_MS } from '../../many-webhooks.ts';
import { deleteOldSteps } from '../../retention/old-steps.ts';
import { arrayOf, isoColumn } from '../../sql.ts';

/** Webhook of the rows with the sums. */
export const ALL_WEBHOOKS = '00000000-0000-0000-0000-000000000000';
const MINUTE = 60;
const QUARTER = QUARTER_SECONDS;
export const HOUR = 3_600;
/** Hours of a webhook in readWebhookHistory. */
const HOURS_SHOWN = 24;

/** Counts of one webhook in one minute; those that are left out are 0. */
export interface HistoryRow extends Partial<HistoryCounts> {
  webhookId: string;
  /** Start of the minute, Unix milliseconds. */
  minuteMs: number;
}

const columns = historyColumns.join(', ');
const sums = historyColumns.map((name) => `sum(${name})::bigint as ${name}`).join(', ');
const total = historyColumns.map((name) => `coalesce(sum(h.${name}), 0)::float8 as ${name}`).join(', ');

/** SQL: the counts of each span. Rows of different minutes may be of one span. */
const spans = `
  select w.webhook_id, s.step, to_timestamp(floor(g.seconds / s.step) * s.step) as at, ${sums}
  from given g, unnest(array[g.webhook_id, '${ALL_WEBHOOKS}']) w (webhook_id), steps s
  group by 1, 2, 3`;
/** SQL: as `spans`, for rows of one minute: only all webhooks together are added up. 19 to 24 us a row with its upserts, 25 to 29 with all sums. */
const spansOfMinute = `
  select g.webhook_id, s.step, to_timestamp(floor(g.seconds / s.step) * s.step) as at, ${columns}
  from (select * from given union all select '${ALL_WEBHOOKS}', min(seconds), ${sums} from given) g, steps s`;

/**
 * Adds counts to the spans of a minute, a quarter of an hour and an hour, of each webhook and of all together. Rows are locked in the order of the primary
 * key, so concurrent processes cannot deadlock.
 * @param rows one for each webhook and minute
 */
export async function addHistory({ query }: Pick<Database, 'query'>, rows: readonly HistoryRow[]): Promise<void> {
  if (rows.length === 0) return;
  const lists = historyColumns.map((name) => arrayOf(rows.map((row) => row[name] ?? 0)));
  const ofOneMinute = rows.every(({ minuteMs }) => minuteMs === rows[0]!.minuteMs);
  await query({
    name: ofOneMinute ? 'add-history-of-minute' : 'add-history',
    text: `
      with given as (
        select * from unnest($1::uuid[], $2::float8[], ${historyColumns.map((_, i) => `$${i + 3}::bigint[]`).join(', ')})
          g (webhook_id, seconds, ${columns})
      ), steps (step) as (
        values (${MINUTE}), (${QUARTER}), (${HOUR})
      ), spans as (${ofOneMinute ? spansOfMinute : spans})
      insert into history (webhook_id, step, at, ${columns})
      select * from spans order by 1, 2, 3
      on conflict (webhook_id, step, at) do update
      set ${historyColumns.map((name) => `${name} = history.${name} + excluded.${name}`).join(', ')}`,
    values: [arrayOf(rows.map((row) => row.webhookId)), arrayOf(rows.map((row) => row.minuteMs / 1000)), ...lists],
  });
}

interface HistorySpan {
  /** Null: all webhooks together. */
  webhookId: string | null;
  /** Multiples of the step, Unix milliseconds. */
  fromMs: number;
  toMs: number;
  stepSeconds: number;
}

type HistoryPoint = { at: string } & HistoryCounts;
const nothing = noCounts();

/**
 * Reads the counts of each step from `fromMs` to `toMs`, oldest first, with zeros where nothing was counted. The zeros are added here: a
 * join with generate_series took 5 ms of Postgres for 1,440 minutes, the sums alone take 1 ms.
 */
export async function readHistory(
  { query }: Pick<Database, 'query'>,
  { webhookId, fromMs, toMs, stepSeconds }: HistorySpan,
): Promise<HistoryPoint[]> {
  const rows = await query<{ index: number } & HistoryCounts>({
    name: 'read-history',
    text: `
      select floor(extract(epoch from h.at - $2::timestamptz) / $4)::int as index, ${total}
      from history h
      where h.webhook_id = $1 and h.step = $5 and h.at >= $2 and h.at < $3
      group by 1`,
    values: [
      webhookId ?? ALL_WEBHOOKS,
      new Date(fromMs).toISOString(),
      new Date(toMs).toISOString(),
      stepSeconds,
      stepSeconds < QUARTER ? MINUTE : stepSeconds < HOUR ? QUARTER : HOUR,
    ],
  });
  const counted = new Map(rows.map(({ index, ...counts }) => [index, counts]));
  const stepMs = stepSeconds * 1_000;
  return Array.from({ length: Math.round((toMs - fromMs) / stepMs) }, (_, index) => ({
    at: new Date(fromMs + index * stepMs).toISOString(),
    ...(counted.get(index) ?? nothing),
  }));
}

/**
 * SQL: the hours of all webhooks in a span, one after another by the index of times. For the span as a whole Postgres expects ten times the
 * rows and reads the whole table.
 * @param from expression of the start of an hour @param to expression
 */
export const hoursSince = (from: string, to: string) => `(
  select spans.* from generate_series(${from}, ${to}, interval '1 hour') hour
  cross join lateral (select * from history where step = ${HOUR} and at = hour offset 0) spans)`;

type WebhookHistory = z.output<typeof webhookHistorySchema>;

/**
 * Reads the ids of the webhooks with most events since a time, most first. Reads a row for each webhook and hour: 130,000 rows of 100,000
 * webhooks take 130 ms of CPU, half of it to add them up by webhook.
 * @param sinceMs start of an hour, Unix milliseconds.
 */
export async function readBusiestWebhooks(
  { query }: Pick<Database, 'query'>,
  sinceMs: number,
  limit: number,
): Promise<string[]> {
  const rows = await query<{ id: string }>({
    name: 'read-busiest-webhooks',
    text: `
      select w.id
      from (
        select h.webhook_id, sum(h.accepted::float8) as accepted
        from ${hoursSince('$1::timestamptz', 'now()')} h
        group by 1
      ) h join webhooks w on w.id = h.webhook_id
      where w.deleted_at is null
      order by h.accepted desc, w.created_at desc, w.id
      limit $2`,
    values: [new Date(sinceMs).toISOString(), limit],
    timeoutMs: ALL_WEBHOOKS_TIMEOUT_MS,
  });
  return rows.map(({ id }) => id);
}

/**
 * Reads the last 24 hours of webhooks, those with most events first.
 * @param sinceMs start of the first hour, Unix milliseconds. @param withNewest also the newest webhooks, as many as the limit
 */
export async function readWebhookHistory(
  { query }: Pick<Database, 'query'>,
  sinceMs: number,
  limit: number,
  webhookIds: readonly string[],
  { withNewest = false } = {},
): Promise<WebhookHistory[]> {
  const newest = 'union (select id from webhooks where deleted_at is null order by created_at desc, id limit $2)';
  const rows = await query<Omit<WebhookHistory, 'hours'> & { indexes: number[]; counts: number[] }>({
    name: withNewest ? 'read-history-with-newest' : 'read-webhook-history',
    text: `
      with chosen as materialized (select unnest($3::uuid[]) as id ${withNewest ? newest : ''})
      select w.id as webhook_id, w.name, w.enabled, ${isoColumn('w.last_event_at')},
        ${historyColumns.map((name) => `c.${name}`).join(', ')}, c.indexes, c.counts
      from chosen join webhooks w using (id)
      cross join lateral (
        select ${total}, coalesce(array_agg(extract(epoch from h.at - $1::timestamptz)::int / ${HOUR}), '{}') as indexes,
          coalesce(array_agg(h.accepted::float8), '{}') as counts
        from history h
        where h.webhook_id = w.id and h.step = ${HOUR} and h.at >= $1
      ) c
      where w.deleted_at is null
      order by c.accepted desc, w.created_at desc, w.id
      limit $2`,
    values: [new Date(sinceMs).toISOString(), limit, arrayOf(webhookIds)],
  });
  return rows.map(({ indexes, counts, ...webhook }) => {
    const hours = Array.from({ length: HOURS_SHOWN }, () => 0);
    for (const [i, index] of indexes.entries()) if (index < HOURS_SHOWN) hours[index] = counts[i]!;
    return { ...webhook, hours };
  });
}

/** Reads the quarters of an hour in which the webhooks had requests, oldest first, by webhook. @param sinceMs Unix milliseconds. */
export async function readWebhookQuarters(
  { query }: Pick<Database, 'query'>,
  sinceMs: number,
  webhookIds: readonly string[],
): Promise<Map<string, WebhookQuarter[]>> {
  const rows = await query<{ webhook_id: string } & WebhookQuarter>({
    name: 'read-webhook-quarters',
    text: `
      select h.webhook_id, ${isoColumn('h.at')}, (h.accepted + h.duplicates)::float8 as accepted, h.rejected::float8 as rejected,
        h.limited::float8 as limited, (h.disabled + h.length_required + h.too_large + h.unavailable)::float8 as refused
      from history h
      where h.webhook_id = any($2::uuid[]) and h.step = ${QUARTER} and h.at >= $1
      order by h.at`,
    values: [new Date(sinceMs).toISOString(), arrayOf(webhookIds)],
  });
  const quarters = new Map(webhookIds.map((id) => [id, [] as WebhookQuarter[]]));
  for (const { webhook_id, ...quarter } of rows) quarters.get(webhook_id)?.push(quarter);
  return quarters;
}

/** Deletes spans that are older than they are kept. @param stopping true: returns before the next statement */
export async function deleteOldHistory(database: Pick<Database, 'query'>, stopping?: () => boolean): Promise<void> {
  const keptHours = { [MINUTE]: MINUTES_KEPT_HOURS, [QUARTER]: MINUTES_KEPT_HOURS, [HOUR]: HOURS_KEPT_DAYS * 24 };
  await deleteOldSteps(database, 'history', keptHours, stopping);
}
