/** What a replay would deliver: matches by webhook, an estimate of the events of a range, and events on which filters are judged. */

import type { CandidateEvent } from '../../../model/filters/evaluate.ts';
import { concatenated, lesser, newest, summedBy, sumOf } from '../../connect/place.ts';
import type { Database, Statement } from '../../connect/pool.ts';
import { arrayOf, isoText, Placeholders } from '../../sql.ts';
import { type EventFilter, type EventSpan, matching, timeConditions, where } from '../events/conditions.ts';

interface WebhookCount {
  webhookId: string;
  count: number;
  /** When the oldest of them was received, ISO. */
  oldestAt: string;
}

const byWebhook = summedBy<WebhookCount>(
  ({ webhookId }) => webhookId,
  (one, other) => ({ ...sumOf(one, other), oldestAt: lesser(one.oldestAt, other.oldestAt)! }),
);

/** Counts the newest `limit` matches by webhook, in each cell. */
export function countByWebhook(
  database: Database,
  filter: EventFilter,
  span: EventSpan,
  limit: number,
  plan?: Statement['plan'],
): Promise<WebhookCount[]> {
  const given = new Placeholders();
  return database.query<WebhookCount>({
    text: `
      select webhook_id as "webhookId", count(*)::int as count, ${isoText('min(received_at)')} as "oldestAt"
      from (
        select e.webhook_id, e.received_at ${matching(given, filter, span)}
        order by e.received_at desc, e.id desc limit ${given.of(limit, 'bigint')}
      ) matches
      group by webhook_id`,
    values: given.values,
    ...(plan && { plan }),
    place: { each: byWebhook },
  });
}

/** Events of a range by the statistics of the planner, at least 1; of the filters only the webhook counts. */
export async function estimateEvents(
  database: Database,
  webhookId: string | null,
  span: Pick<EventSpan, 'from' | 'to'>,
): Promise<number> {
  const given = new Placeholders();
  const conditions = [
    ...timeConditions(given, { ...span, before: null, downTo: null }, 'e.received_at'),
    ...(webhookId === null ? [] : [`e.webhook_id = ${given.of(webhookId, 'uuid')}`]),
  ];
  const plans = await database.query<{ 'QUERY PLAN': [{ Plan: { 'Plan Rows': number } }] }>({
    text: `explain (format json) select from events e ${where(conditions)}`,
    values: given.values,
    place: { each: concatenated },
  });
  return Math.max(
    1,
    plans.reduce((sum, row) => sum + row['QUERY PLAN'][0].Plan['Plan Rows'], 0),
  );
}

export interface EventToJudge extends Omit<CandidateEvent, 'filter'> {
  id: string;
  webhookId: string;
}

interface JudgeSlice {
  webhookIds: readonly string[];
  readsBody: boolean;
  /** Events. */
  max: number;
  /** Limit on the sum of the bodies; the first event is returned whatever its size. */
  bytesMax: number;
}

/** Reads the newest matches of these webhooks, newest first. */
export async function readEventsToJudge(
  database: Database,
  filter: EventFilter,
  span: EventSpan,
  { webhookIds, readsBody, max, bytesMax }: JudgeSlice,
): Promise<EventToJudge[]> {
  const given = new Placeholders();
  const found = matching(given, filter, span);
  const own = `e.webhook_id = any (${given.of(arrayOf(webhookIds), 'uuid[]')})`;
  const body = readsBody
    ? 'join events e on e.received_at = c.received_at and e.id = c.id and e.webhook_id = c.webhook_id'
    : '';
  return database.query<EventToJudge>({
    text: `
      with newest as (
        select e.received_at, e.id, e.webhook_id, e.bytes, e.content_type, e.event_type, e.headers
        ${found} ${found.includes(' where ') ? 'and' : 'where'} ${own}
        order by e.received_at desc, e.id desc limit ${given.of(max, 'bigint')}
      ), chosen as (
        select *, sum(bytes) over (order by received_at desc, id desc) - bytes as bytes_before from newest
      )
      select c.id, c.webhook_id as "webhookId", w.name as webhook, c.content_type as "contentType", c.event_type as "eventType",
        c.headers, c.bytes, ${readsBody ? 'e.body' : 'null::bytea'} as body
      from chosen c
      join webhooks w on w.id = c.webhook_id
      ${body}
      where ${readsBody ? 'c.bytes_before' : '0'} < ${given.of(bytesMax, 'bigint')}
      order by c.received_at desc, c.id desc`,
    values: given.values,
    place: { each: newest(max, ({ id }) => id) },
  });
}
