/** Leases the oldest deliveries of one webhook. */
import type { Query } from '../../connect/pool.ts';
import { type ClaimedRows, runClaim } from './claim-and-ack.ts';
import { daysOfClaim, lease, leasedColumns, leaseValues, mayClaim, millisecondsOf, withEventOf } from './lease.ts';
import type { ClaimOrder } from './order.ts';
import type { Receipt } from './receipts.ts';

/**
 * For an agent that has deliveries of one webhook only: no round over webhooks, so neither sorts nor windows over it.
 * The rows of `oldest` come in the order of the index, so the sum of bytes needs no order of its own.
 *
 * CPU of Postgres in us per delivery that is claimed and acknowledged; 38 partitions, one webhook, commits not flushed, the lowest of five
 * rounds in turns on a busy machine:
 *
 *     deliveries per claim                      1     10    100
 *     in a round, all partitions joined       994    155     52
 *     in a round, the partitions of the days  699    125     48
 *     the oldest, the partitions of the days  462     93     43
 */
export function claimOldest(
  query: Query,
  order: ClaimOrder,
  webhookId: string,
  acks: readonly Receipt[],
): Promise<ClaimedRows> {
  const values = [...leaseValues(order), webhookId];
  const days = daysOfClaim(order, values);
  const statement = {
    name: `claim-oldest${days.name}`,
    text: (leftOut: string) => `
      update deliveries d
      set ${lease}
      from (
        select oldest.*, e.event_type, e.content_type, e.headers, e.body
        from (
          select *, sum(bytes) over (rows between unbounded preceding and current row) - bytes as bytes_before
          from (
            select received_at, id, event_id, webhook_id, available_at, bytes, state
            from deliveries
            where agent_id = $1 and webhook_id = $10
              and state in ('pending', 'leased') and available_at <= now() and available_at >= $7::timestamptz ${leftOut}
              and exists (select from agents a where ${mayClaim})
            order by available_at
            limit $2
            for update skip locked
          ) locked
        ) oldest
        ${withEventOf('oldest', days)}
        where bytes_before < $5
      ) c
      where d.received_at = c.received_at and d.id = c.id and d.webhook_id = c.webhook_id and d.state in ('pending', 'leased')
      returning ${leasedColumns('1', millisecondsOf('c.available_at'), '(select name from webhooks where id = $10)')}`,
    values: [...values, ...days.values],
    place: { cell: order.cell },
  };
  return runClaim(query, statement, acks);
}
