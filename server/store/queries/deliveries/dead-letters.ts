/** Dead letters by reason. */
import type { z } from 'zod';
import type { deadGroupSchema } from '../../../model/dead-letters.ts';
import { COUNTED_MAX } from '../../../model/events.ts';
import { summedBy } from '../../connect/place.ts';
import type { Database } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';
import { withinTimeout } from './counts.ts';

type DeadGroup = z.output<typeof deadGroupSchema>;

/** Groups returned; the rest are rare reasons. */
const GROUPS_MAX = 50;
const AGENTS_NAMED = 5;

type Read = DeadGroup & { read: number };

/** The groups of several cells: those with the same reason are one. */
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
