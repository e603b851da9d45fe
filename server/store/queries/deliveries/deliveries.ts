/** Deliveries: dead letters by reason, and the end of last leases. Lists, claims and settlements have a file each. */
import type { z } from 'zod';
import { COUNTED_MAX, type deadGroupSchema } from '../../../model/events.ts';
import { concatenated, summedBy } from '../../connect/place.ts';
import type { Database } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';
import { withinTimeout } from './counts.ts';
import { leaseEnded } from './history.ts';

const AT_A_TIME = 1_000;

/** Reason stored for a delivery whose last lease expired without an acknowledgement. */
export const LAST_LEASE_ENDED = 'the last lease expired without an acknowledgement';

/**
 * Turns deliveries whose last lease has expired into dead letters, at most AT_A_TIME per statement. Returns how many. A claim does
 * the same with those it finds (claims/claim.ts); this function covers agents that do not claim any more. In both cases the receipt
 * becomes invalid with the lease.
 * @param attemptsMax current DELIVERY_MAX_ATTEMPTS: if it was raised since the lease, the delivery is claimable again.
 * @param onEnded called after each statement with the agent of each delivery.
 * @param stopping true: returns before the next statement.
 */
export async function endLastLeases(
  database: Database,
  attemptsMax: number,
  onEnded: (agentIds: string[]) => void = () => {},
  stopping: () => boolean = () => false,
): Promise<number> {
  let ended = 0;
  for (;;) {
    const rows = await database.query<{ agentId: string }>({
      text: `
        with over as materialized (
          select received_at, id, webhook_id from deliveries
          where state = 'leased' and last_lease and available_at <= now() and attempts >= $1
          order by available_at limit $2 for update skip locked
        )
        update deliveries d
        set state = 'dead', leases = d.leases + 1, finished_at = now(), reason = '${LAST_LEASE_ENDED}',
          history = ${leaseEnded('expired', 'd.available_at')}
        from over o
        where d.received_at = o.received_at and d.id = o.id and d.webhook_id = o.webhook_id and d.state = 'leased'
        returning d.agent_id as "agentId"`,
      values: [attemptsMax, AT_A_TIME],
      place: { each: concatenated, lenient: true },
    });
    ended += rows.length;
    onEnded(rows.map(({ agentId }) => agentId));
    if (rows.length < AT_A_TIME || stopping()) return ended;
  }
}

type DeadGroup = z.output<typeof deadGroupSchema>;

/** Groups returned; the rest are rare reasons. */
const GROUPS_MAX = 50;
const AGENTS_NAMED = 5;

type Read = DeadGroup & { read: number };

/** Joins the groups of several cells: those with the same reason become one. */
function together(byCell: Read[][]): Read[] {
  const read = byCell.reduce((sum, rows) => sum + (rows[0]?.read ?? 0), 0);
  const sameReason = summedBy<Read>(
    ({ reason }) => JSON.stringify(reason),
    (one, other) => {
      const agentIds = [...new Set([...one.agent_ids, ...other.agent_ids])];
      return {
        ...one,
        deliveries: one.deliveries + other.deliveries,
        // Beyond those named, an agent of both cells counts twice.
        agents: Math.max(agentIds.length, one.agents, other.agents),
        agent_ids: agentIds.slice(0, AGENTS_NAMED),
        first_at: one.first_at < other.first_at ? one.first_at : other.first_at,
        last_at: one.last_at > other.last_at ? one.last_at : other.last_at,
      };
    },
  );
  return sameReason(byCell)
    .map((group) => ({ ...group, read }))
    .sort((a, b) => b.deliveries - a.deliveries)
    .slice(0, GROUPS_MAX + 1);
}

/**
 * Groups the newest COUNTED_MAX dead letters by their reason, the most frequent first. `complete` false: there are more dead letters or
 * more groups. Rejects on timeout.
 */
export async function groupDeadLetters(
  database: Database,
  { agentId, webhookId }: { agentId: string | null; webhookId: string | null },
): Promise<{ groups: DeadGroup[]; complete: boolean }> {
  const rows = await withinTimeout(database, (query) =>
    query<Read>({
      text: `
        select reason, count(*)::int as deliveries, count(distinct agent_id)::int as agents,
          (array_agg(distinct agent_id::text))[1:${AGENTS_NAMED}] as agent_ids,
          ${isoText('min(finished_at)')} as first_at, ${isoText('max(finished_at)')} as last_at, sum(count(*)) over ()::int as read
        from (
          select reason, agent_id, finished_at from deliveries
          where state = 'dead' and ($1::uuid is null or agent_id = $1) and ($2::uuid is null or webhook_id = $2)
          order by received_at desc, id desc
          limit ${COUNTED_MAX + 1}
        ) d
        group by reason
        order by deliveries desc, last_at desc
        limit ${GROUPS_MAX + 1}`,
      values: [agentId, webhookId],
      place: { each: together },
    }),
  );
  return {
    groups: rows.slice(0, GROUPS_MAX).map(({ read: _, ...group }) => group),
    complete: rows.length <= GROUPS_MAX && (rows[0]?.read ?? 0) <= COUNTED_MAX,
  };
}
