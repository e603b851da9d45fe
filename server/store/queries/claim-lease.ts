/** What the two claim statements share: the assignments that lease a delivery, the columns of the answer, and the first parameters. */

import { asText } from '../byte-text.ts';
import { isoText } from '../sql.ts';
import type { ClaimOrder } from './claim-order.ts';
import { LAST_LEASE_ENDED } from './deliveries.ts';
import { leaseEnded } from './delivery-history.ts';

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

/**
 * SQL columns of the leased delivery `d`, which was chosen as `c` and has the event `e`. The end of the lease, the same for all, is formatted
 * once.
 */
export const leasedColumns = `
  d.id, d.state, c.state = 'leased' as expired, d.attempts as attempt, d.leases as lease, d.event_id as "eventId", d.webhook_id as "webhookId",
  (select ${isoText('(now() + make_interval(secs => $3))')}) as "leasedUntil",
  c.event_type as "eventType", c.content_type as "contentType", ${asText('c.headers')} as headers, ${asText('c.body')} as body`;

/**
 * SQL that adds the event to each row of `c`. A parameterised scan of `events` starts a plan for each partition, 46 with the default
 * RETENTION_DAYS: more than half of the processor time of a claim of one. The bounds of `received_at` are known when the plan starts, so it
 * starts only those of these days. `lateral` with `limit`: as a join, a plan that was made while the tables were empty reads all events of
 * these days for each delivery.
 */
export const withEventOf = (c: string) => `
  left join lateral (
    select event_type, content_type, headers, body from events
    where received_at = ${c}.received_at and id = ${c}.event_id and webhook_id = ${c}.webhook_id
      and received_at >= $10 and received_at < $11
    limit 1
  ) e on true`;

/** SQL: the agent may claim. Its generation and limit are those that the order was made with. */
export const mayClaim = `a.id = $1 and a.generation = $6 and (a.max_leased is null or $9)`;

/** The values of $1 to $11. */
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
    order.days.from,
    order.days.to,
  ];
}
