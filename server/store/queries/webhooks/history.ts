/**
 * History: counts of requests a minute, a quarter of an hour and an hour. The row with ALL_WEBHOOKS is the sum, so that no page adds up
 * webhooks.
 */
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
import type { Database, Queries, Query } from '../../connect/pool.ts';
import { deleteOldSteps } from '../../retention/in-parts.ts';
import { arrayOf, isoColumn, isoText } from '../../sql.ts';
import { addToState, HALF_LIFE_HOURS, hourOf, lastEventAt } from './state.ts';

/** Webhook of the rows with the sums. */
export const ALL_WEBHOOKS = '00000000-0000-0000-0000-000000000000';
const MINUTE = 60;
const QUARTER = QUARTER_SECONDS;
export const HOUR = 3_600;
const HOURS_SHOWN = 24;
/** Candidates per webhook in the list. They are chosen by `recent`, a sum that fades with time, and then ordered by events in HOURS_SHOWN. */
const CANDIDATES_FACTOR = 4;

/** What requests change of the state of a webhook, beside the counts. */
export interface StateChange {
  /** Unix milliseconds; 0: no event. */
  lastEventMs: number;
  /** The secret that was the current one when the requests were counted; null: none. */
  secretId: string | null;
  /** Requests that this secret verified. */
  uses: number;
  /** Requests that the previous secret verified. */
  previousUses: number;
}

/** Counts of one webhook in one minute; those that are left out are 0. */
export interface HistoryRow extends Partial<HistoryCounts>, Partial<StateChange> {
  webhookId: string;
  /** Counted in the quarter of an hour and the hour alone, and in the minute of all webhooks together. */
  withoutMinute?: boolean;
  /** Start of the minute, Unix milliseconds. */
  minuteMs: number;
}

const columns = historyColumns.join(', ');
const sums = historyColumns.map((name) => `sum(${name})::bigint as ${name}`).join(', ');
const total = historyColumns.map((name) => `coalesce(sum(h.${name}), 0)::float8 as ${name}`).join(', ');

/** Adds one row for each webhook, and their sum. A row with its upserts costs 19 to 24 us, with a sum for each webhook 25 to 29. */
const addRows = `
  with given as materialized (
    select * from unnest($1::uuid[], $2::float8[], $3::boolean[], $4::timestamptz[], $5::uuid[], $6::bigint[], $7::bigint[],
      ${historyColumns.map((_, i) => `$${i + 8}::bigint[]`).join(', ')})
      g (webhook_id, seconds, without_minute, last_event_at, secret_id, uses, previous_uses, ${columns})
  ), steps (step) as (
    values (${MINUTE}), (${QUARTER}), (${HOUR})
  ), spans as (
    select g.webhook_id, s.step, to_timestamp(floor(g.seconds / s.step) * s.step) as at, ${columns}
    from (
      select webhook_id, seconds, without_minute, ${columns} from given
      union all select '${ALL_WEBHOOKS}', min(seconds), false, ${sums} from given
    ) g, steps s
    where not (g.without_minute and s.step = ${MINUTE})
  ), state as (${addToState})
  insert into history (webhook_id, step, at, ${columns})
  select * from spans order by 1, 2, 3
  on conflict (webhook_id, step, at) do update
  set ${historyColumns.map((name) => `${name} = history.${name} + excluded.${name}`).join(', ')}`;

/**
 * Adds counts to the spans of a minute, a quarter of an hour and an hour, of each webhook and of all together, and to the state of the
 * webhook. Rows are locked in the order of their primary keys, so concurrent processes cannot deadlock; rows of several minutes, after an
 * outage, are written in one transaction.
 * @param rows one for each webhook and minute
 */
export async function addHistory(
  database: Pick<Database, 'query' | 'transaction'>,
  rows: readonly HistoryRow[],
): Promise<void> {
  const minutes = [...new Set(rows.map(({ minuteMs }) => minuteMs))].sort((one, other) => one - other);
  const addMinutes = async (query: Query) => {
    for (const minute of minutes) {
      const values = valuesOf(rows.filter(({ minuteMs }) => minuteMs === minute));
      await query({ name: 'add-history', text: addRows, values });
    }
  };
  if (minutes.length > 1) await database.transaction(addMinutes);
  else if (minutes.length === 1) await addMinutes(database.query);
}

function valuesOf(rows: readonly HistoryRow[]): string[] {
  return [
    rows.map(({ webhookId }) => webhookId),
    rows.map(({ minuteMs }) => minuteMs / 1_000),
    rows.map(({ withoutMinute = false }) => String(withoutMinute)),
    rows.map(({ lastEventMs = 0 }) => (lastEventMs === 0 ? null : new Date(lastEventMs).toISOString())),
    rows.map(({ secretId }) => secretId ?? null),
    rows.map(({ uses = 0 }) => uses),
    rows.map(({ previousUses = 0 }) => previousUses),
    ...historyColumns.map((name) => rows.map((row) => row[name] ?? 0)),
  ].map(arrayOf);
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
  { query }: Queries,
  { webhookId, fromMs, toMs, stepSeconds }: HistorySpan,
): Promise<HistoryPoint[]> {
  const rows = await query<{ index: number } & HistoryCounts>({
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

type WebhookHistory = z.output<typeof webhookHistorySchema>;

/** SQL: the busiest webhooks, and the newest ones for a list that has fewer webhooks with events. */
const busiest = `
  (select webhook_id as id from webhook_state where hour >= $3
   order by recent * power(0.5, ($3 + ${HOURS_SHOWN - 1} - hour) / ${HALF_LIFE_HOURS}.0::float8) desc, webhook_id
   limit ${CANDIDATES_FACTOR} * $2)
  union (select id from webhooks where deleted_at is null order by created_at desc, id limit $2)`;

/**
 * Reads the last HOURS_SHOWN hours of webhooks, those with most events first.
 * @param sinceMs start of the first hour, Unix milliseconds.
 * @param webhookIds null: of all
 */
export async function readWebhookHistory(
  { query }: Queries,
  sinceMs: number,
  limit: number,
  webhookIds: readonly string[] | null,
): Promise<WebhookHistory[]> {
  const rows = await query<Omit<WebhookHistory, 'hours'> & { indexes: number[]; counts: number[] }>({
    text: `
      with chosen as materialized (${webhookIds === null ? busiest : 'select unnest($3::uuid[]) as id'})
      select w.id as webhook_id, w.name, w.enabled, ${isoText(lastEventAt)} as last_event_at,
        ${historyColumns.map((name) => `c.${name}`).join(', ')}, c.indexes, c.counts, coalesce((
          select ${historyColumns.filter((name) => !['bytes', 'by_previous'].includes(name)).join(' + ')} from history
          where webhook_id = w.id and step = ${HOUR} and at = $1::timestamptz + interval '${HOURS_SHOWN - 1} hours' - interval '7 days'), 0)::float8 as week_ago
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
    values: [new Date(sinceMs).toISOString(), limit, webhookIds === null ? hourOf(sinceMs) : arrayOf(webhookIds)],
  });
  return rows.map(({ indexes, counts, ...webhook }) => {
    const hours = Array.from({ length: HOURS_SHOWN }, () => 0);
    for (const [i, index] of indexes.entries()) if (index < HOURS_SHOWN) hours[index] = counts[i]!;
    return { ...webhook, hours };
  });
}

/** Reads the quarters of an hour in which the webhooks had requests, oldest first, by webhook. @param sinceMs Unix milliseconds. */
export async function readWebhookQuarters(
  { query }: Queries,
  sinceMs: number,
  webhookIds: readonly string[],
): Promise<Map<string, WebhookQuarter[]>> {
  const rows = await query<{ webhook_id: string } & WebhookQuarter>({
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

/** Deletes spans after the time for which spans of their length are kept. @param stopping see inParts */
export async function deleteOldHistory(database: Queries, stopping?: () => boolean): Promise<void> {
  const keptHours = { [MINUTE]: MINUTES_KEPT_HOURS, [QUARTER]: MINUTES_KEPT_HOURS, [HOUR]: HOURS_KEPT_DAYS * 24 };
  await deleteOldSteps(database, 'history', keptHours, stopping);
}
