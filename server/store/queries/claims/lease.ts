/** The statement that leases the next deliveries, alone or together with the acknowledgement of what the agent claimed before. */
import { DAY_MS } from '../../../base/time/durations.ts';
import type { Query } from '../../connect/pool.ts';
import { isoTime } from '../../ids.ts';
import { asText, Placeholders } from '../../sql.ts';
import { LAST_LEASE_ENDED } from '../deliveries/deliveries.ts';
import { leaseEnded } from '../deliveries/history.ts';
import { nextInRound, nextOfIds, nextOfWebhook } from './next.ts';
import type { ClaimOrder, Days, LeasedRow } from './order.ts';
import { type Receipt, receiptColumns } from './receipts.ts';
import { type Acknowledged, ackText, parseAcknowledged } from './settle.ts';

/**
 * Leases the next deliveries. Acknowledgements share the round trip and the commit. A statement can change a row only once, so it does not
 * lease a delivery that it acknowledges; an acknowledgement of an expired lease therefore succeeds.
 * @param acks receipts of deliveries in the same cell; empty: only leases
 * @param ids see claimDeliveries
 */
export async function leaseNext(
  query: Query,
  order: ClaimOrder,
  acks: readonly Receipt[],
  ids: readonly string[] | null,
): Promise<{ rows: LeasedRow[]; acknowledged: Acknowledged[] }> {
  const given = new Placeholders();
  // The first parameter, as ackText expects it.
  const agentId = given.of(order.agentId, 'uuid');
  const receipts = acks.length === 0 ? [] : receiptColumns(acks).map((column) => `$${given.values.push(column)}`);
  const { name, text } = leaseText(given, order, ids, {
    agentId,
    only: acks.length === 0 ? '' : `and (state = 'pending' or id <> all (${receipts[0]}::uuid[]))`,
  });
  const send = (suffix: string, whole: string) =>
    query<AnsweredRow>({
      name: `${name}${suffix}`,
      plan: 'keyed',
      text: whole,
      values: given.values,
      place: { cell: order.cell },
    });
  if (acks.length === 0) return { rows: (await send('', text)).map(parseLeased), acknowledged: [] };
  const rows = await send(
    '-and-ack',
    `with acked as (${ackText(receipts)}
    ), claimed as (${text}
    )
    select * from claimed
    union all
    select string_agg(acknowledged, ','), null, null, null, null from acked`,
  );
  // The last row is that of the acknowledgements.
  const acked: string | null | undefined = rows.pop()?.leased;
  return { rows: rows.map(parseLeased), acknowledged: acked?.split(',').map(parseAcknowledged) ?? [] };
}

function leaseText(
  given: Placeholders,
  order: ClaimOrder,
  ids: readonly string[] | null,
  { agentId, only }: { agentId: string; only: string },
): { name: string; text: string } {
  const mayClaim = `and exists (select from agents a where a.id = ${agentId} and a.generation = ${given.of(order.generation, 'integer')}
    and a.paused_at is null and (a.max_leased is null or ${given.of(order.isLimited, 'boolean')}))`;
  const terms = { agentId, max: given.of(order.max, 'bigint'), only: `${only} ${mayClaim}` };
  const [kind, next] = nextOf(given, order, ids, terms);
  const [attemptsMax, seconds] = [given.of(order.attemptsMax, 'integer'), given.of(order.leaseSeconds, 'float8')];
  const days = daysOf(given, order.days);
  const hasAttempts = (yes: string, no: string) => `case when d.attempts < ${attemptsMax} then ${yes} else ${no} end`;
  const text = `
      update deliveries d
      set state = ${hasAttempts(`'leased'`, `'dead'`)},
        attempts = ${hasAttempts('d.attempts + 1', 'd.attempts')},
        ${order.isOrdered ? 'order_number = case when d.order_key is not null then 0 end,\n        ' : ''}last_lease = d.attempts + 1 >= ${attemptsMax},
        leases = d.leases + 1,
        finished_at = ${hasAttempts('null', 'now()')},
        reason = ${hasAttempts('d.reason', `'${LAST_LEASE_ENDED}'`)},
        history = case when d.state = 'leased' then ${leaseEnded('expired', 'd.available_at')} else d.history end,
        leased_at = now(),
        leased_from = ${given.of(order.address, 'inet')},
        available_at = now() + make_interval(secs => ${seconds})
      from (
        select n.*, e.event_type, e.content_type, e.headers, e.body
        from (
          select *, sum(bytes) over (rows between unbounded preceding and current row) - bytes as bytes_before from (${next}) ordered
        ) n
        left join lateral (
          select event_type, content_type, headers, body from events
          where received_at = n.received_at and id = n.event_id and webhook_id = n.webhook_id
            and received_at >= ${days.from} and received_at < ${days.to}
          limit 1
        ) e on true
        where bytes_before < ${given.of(order.bytesMax, 'bigint')}
      ) c
      where d.received_at = c.received_at and d.id = c.id and d.webhook_id = c.webhook_id and d.state in ('pending', 'leased')
      returning
        concat_ws('.', d.id, d.event_id, d.webhook_id, d.state, c.state, d.attempts, d.leases, c.place, ${milliseconds('c.since')},
          (select ${milliseconds(`now() + make_interval(secs => ${seconds})`)}), c.webhook_name) as leased,
        c.event_type as "eventType", c.content_type as "contentType", ${asText('c.headers')} as headers, ${asText('c.body')} as body`;
  return { name: `claim-${kind}${order.isOrdered ? '-in-order' : ''}${days.name}`, text };
}

/** SQL of the deliveries to lease, and a name of its text. */
function nextOf(
  given: Placeholders,
  order: ClaimOrder,
  ids: readonly string[] | null,
  terms: Parameters<typeof nextInRound>[2],
): [kind: string, text: string] {
  if (ids !== null) return ['of-ids', nextOfIds(given, order, ids.slice(0, order.max), terms)];
  const { onlyWebhookId, webhookIds } = order;
  if (onlyWebhookId !== null && (webhookIds?.includes(onlyWebhookId) ?? true))
    return ['of-webhook', nextOfWebhook(given, order, onlyWebhookId, terms)];
  return [order.hasManyWebhooks ? 'in-round-of-many' : 'in-round', nextInRound(given, order, terms)];
}

/** SQL: the Unix milliseconds of a time, rounded down, because the next claim starts its scan there. */
const milliseconds = (time: string) => `floor(date_part('epoch', ${time}) * 1000)::bigint`;

/**
 * A row as the statement returns it. All short values are in one column, because each column costs Postgres and this process calls of their
 * own: a claim of 100 takes 38.8 us a delivery of both together, 53 with a column for each value (bench/NOTES.md).
 */
type AnsweredRow = Pick<LeasedRow, 'eventType' | 'contentType' | 'headers' | 'body'> & { leased: string };

/** Parses a row of the statement: values separated by dots, and the name of the webhook, which may contain dots, last. */
export function parseLeased({ leased, ...event }: AnsweredRow): LeasedRow {
  const [id, eventId, webhookId, state, stateBefore, attempt, lease, place, sinceMs, untilMs, ...name] =
    leased.split('.');
  return {
    id: id!,
    eventId: eventId!,
    webhookId: webhookId!,
    webhookName: name.join('.'),
    state: state as LeasedRow['state'],
    expired: stateBefore === 'leased',
    attempt: Number(attempt),
    lease: Number(lease),
    place: Number(place),
    sinceMs: Number(sinceMs),
    leasedUntil: isoTime(Number(untilMs)),
    ...event,
  };
}

/**
 * SQL of the bounds of the days, so that Postgres sets up only their partitions of `events`: with all of them, 46 with the default
 * RETENTION_DAYS, a claim of one took twice the processor time. A single day, the usual case, is in the text, and so in the name: with
 * placeholders Postgres locks all partitions each time, 20 us more. In the look-up `limit` is needed: as a join, a plan that was made while
 * the tables were empty reads all events of these days for each delivery.
 */
function daysOf(given: Placeholders, { from, to }: Days): { from: string; to: string; name: string } {
  const [fromMs, toMs] = [Date.parse(from), Date.parse(to)];
  if (fromMs % DAY_MS !== 0 || toMs - fromMs !== DAY_MS)
    return { from: given.of(from, 'timestamptz'), to: given.of(to, 'timestamptz'), name: '' };
  const text = (ms: number) => `timestamptz '${isoTime(ms)}'`;
  return { from: text(fromMs), to: text(toMs), name: `-${isoTime(fromMs).slice(0, 10)}` };
}
