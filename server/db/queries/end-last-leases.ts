import type { Database } from '../pool.ts';

/** Limit on the deliveries updated by one statement. */
const AT_A_TIME = 1_000;

/** Reason stored for a delivery whose last lease expired without an acknowledgement. */
export const LAST_LEASE_ENDED = 'the last lease expired without an acknowledgement';

/**
 * Turns deliveries whose last lease has expired into dead letters, at most AT_A_TIME per transaction. Returns how many. A claim does
 * the same with those it finds (claim-deliveries.ts); this function covers agents that no longer claim. In both cases the receipt
 * becomes invalid with the lease.
 * @param attemptsMax current DELIVERY_MAX_ATTEMPTS: if it was raised since the lease, the delivery is claimable again.
 * @param onEnded called after each transaction with the agent of each delivery.
 */
export async function endLastLeases(
  database: Database,
  attemptsMax: number,
  onEnded: (agentIds: string[]) => void = () => {},
): Promise<number> {
  let ended = 0;
  for (;;) {
    const rows = await database.transaction(async (query) => {
      // Look up each row in its own partition, see replay.ts.
      await query({ text: 'set local enable_hashjoin to off; set local enable_mergejoin to off' });
      return query<{ agentId: string }>({
        text: `
          with over as materialized (
            select received_at, id, webhook_id from deliveries
            where state = 'leased' and last_lease and available_at <= now() and attempts >= $1
            order by available_at limit $2 for update skip locked
          )
          update deliveries d
          set state = 'dead', leases = d.leases + 1, finished_at = now(), reason = coalesce(d.reason, '${LAST_LEASE_ENDED}')
          from over o
          where d.received_at = o.received_at and d.id = o.id and d.webhook_id = o.webhook_id
          returning d.agent_id as "agentId"`,
        values: [attemptsMax, AT_A_TIME],
      });
    });
    ended += rows.length;
    onEnded(rows.map(({ agentId }) => agentId));
    if (rows.length < AT_A_TIME) return ended;
  }
}
