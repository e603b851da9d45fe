/** What the claim statements share: the assignments that lease a delivery, the columns of the answer, and the first parameters. */

import { DAY_MS } from '../../../base/time/durations.ts';
import { asText } from '../../byte-text.ts';
import { isoTime } from '../../ids.ts';
import { LAST_LEASE_ENDED } from '../deliveries/deliveries.ts';
import { leaseEnded } from '../deliveries/history.ts';
import type { ClaimOrder, LeasedRow } from './order.ts';

/** SQL assignments that lease the delivery `d`, or make it a dead letter if it has used all attempts. */
export const lease = `
  state = case when d.attempts < $4 then 'leased' else 'dead' end,
  attempts = case when d.attempts < $4 then d.attempts + 1 else d.attempts end,
  last_lease = d.attempts + 1 >= $4,
  leases = d.leases + 1,
  finished_at = case when d.attempts < $4 then null else now() end,
  reason = case when d.attempts < $4 then d.reason else '${LAST_LEASE_ENDED}' end,
  history = case when d.state = 'leased' then ${leaseEnded('expired', 'd.available_at')} else d.history end,
  leased_at = now(),
  leased_from = $8,
  available_at = now() + make_interval(secs => $3)`;

/** SQL: the Unix milliseconds of a time. Not later than it: claims look from there on. */
export const millisecondsOf = (time: string) => `floor(date_part('epoch', ${time}) * 1000)::bigint`;

/**
 * SQL columns of the leased delivery `d`, which was chosen as `c` and has the event `e`; see parseLeased. What is short is in one column:
 * Postgres writes each column of a row by itself, and this process reads it with one or two calls. A claim of 100 of 1 KiB that acknowledges
 * the 100 before, us a delivery of Postgres and of this process until the rows are read, lower quartiles of 12 rounds in turns at a load
 * of 20: 37.7 and 15.3 with 16 columns, 35.2 and 13.8 with these and with receipts as numbers (settle.ts).
 * @param place, sinceMs, webhookName SQL expressions of members of LeasedRow
 */
export const leasedColumns = (place: string, sinceMs: string, webhookName: string) => `
  concat_ws('.', d.id, d.event_id, d.webhook_id, d.state, c.state, d.attempts, d.leases, ${place}, ${sinceMs},
    (select ${millisecondsOf('now() + make_interval(secs => $3)')}), ${webhookName}) as leased,
  c.event_type as "eventType", c.content_type as "contentType", ${asText('c.headers')} as headers, ${asText('c.body')} as body`;

/** A row of leasedColumns. */
export type AnsweredRow = Pick<LeasedRow, 'eventType' | 'contentType' | 'headers' | 'body'> & { leased: string };

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

/** The days of a statement: SQL of their bounds, what they add to its name, and values after its others. */
interface DaysOfClaim {
  from: string;
  to: string;
  name: string;
  values: readonly string[];
}

/**
 * A single day, the usual case, is in the text, and so in the name: the plan is then made for one partition of `events`. With placeholders
 * Postgres locks all of them each time, 46 with the default RETENTION_DAYS: 310 us for a claim of one that acknowledges the one before, 290 with
 * the day in the text (medians of 12 rounds in turns at a load of 20, commits not flushed); 31.5 and 29.9 us a delivery for 100.
 * @param values the others of the statement
 */
export function daysOfClaim({ days: { from, to } }: Pick<ClaimOrder, 'days'>, values: readonly unknown[]): DaysOfClaim {
  const [fromMs, toMs] = [Date.parse(from), Date.parse(to)];
  return fromMs % DAY_MS === 0 && toMs - fromMs === DAY_MS
    ? {
        from: `timestamptz '${isoTime(fromMs)}'`,
        to: `timestamptz '${isoTime(toMs)}'`,
        name: `-${isoTime(fromMs).slice(0, 10)}`,
        values: [],
      }
    : {
        from: `$${values.length + 1}::timestamptz`,
        to: `$${values.length + 2}::timestamptz`,
        name: '',
        values: [from, to],
      };
}

/**
 * SQL that adds the event to each row of `c`. A parameterised scan of `events` starts a plan for each partition, 46 with the default
 * RETENTION_DAYS: more than half of the processor time of a claim of one. The bounds of `received_at` are known when the plan starts, so it
 * starts only those of these days. `lateral` with `limit`: as a join, a plan that was made while the tables were empty reads all events of
 * these days for each delivery.
 */
export const withEventOf = (c: string, { from, to }: DaysOfClaim) => `
  left join lateral (
    select event_type, content_type, headers, body from events
    where received_at = ${c}.received_at and id = ${c}.event_id and webhook_id = ${c}.webhook_id
      and received_at >= ${from} and received_at < ${to}
    limit 1
  ) e on true`;

/** SQL: the agent may claim. Its generation and limit are those that the order was made with. */
export const mayClaim = `a.id = $1 and a.generation = $6 and (a.max_leased is null or $9)`;

/** The values of $1 to $9. */
export function leaseValues(order: ClaimOrder): unknown[] {
  return [
    order.agentId,
    order.max,
    order.leaseSeconds,
    order.attemptsMax,
    order.bytesMax,
    order.generation,
    order.claimableFrom,
    order.address,
    order.isLimited,
  ];
}
