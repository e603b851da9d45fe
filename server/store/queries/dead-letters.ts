/** Dead letters by reason. */
import type { z } from 'zod';
import type { deadGroupSchema } from '../../model/dead-letters.ts';
import { COUNTED_MAX } from '../../model/events.ts';
import type { Database } from '../pool.ts';
import { isoText } from '../sql.ts';
import { withinTimeout } from './delivery-counts.ts';

type DeadGroup = z.output<typeof deadGroupSchema>;

/** Groups returned; the rest are rare reasons. */
const GROUPS_MAX = 50;
/** Agents named of a group. */
const AGENTS_NAMED = 5;

/**
 * Groups the newest COUNTED_MAX dead letters by their reason, the most frequent first. `complete` false: there are more dead letters or
 * more groups. Rejects on timeout.
 */
export async function groupDeadLetters(
  database: Database,
  { agentId, webhookId }: { agentId: string | null; webhookId: string | null },
): Promise<{ groups: DeadGroup[]; complete: boolean }> {
  const rows = await withinTimeout(database, (query) =>
    query<DeadGroup & { read: number }>({
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
    }),
  );
  return {
    groups: rows.slice(0, GROUPS_MAX).map(({ read: _, ...group }) => group),
    complete: rows.length <= GROUPS_MAX && (rows[0]?.read ?? 0) <= COUNTED_MAX,
  };
}
