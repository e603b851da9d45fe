/** Agent activity: when each agent was last seen, and how far behind it is. */
import type { Database } from '../pool.ts';
import { arrayOf, isoColumn, isoText } from './sql.ts';
import { waitingDays } from './waiting-days.ts';

/** Limit on the dead letters counted for one agent. */
export const DEAD_COUNTED_MAX = 1_000;

/** Limit on the agents in one result; equals the page size of the agent list. */
export const ACTIVE_AGENTS_MAX = 200;

export interface AgentActivity {
  agent_id: string;
  last_seen_at: string | null;
  last_seen_from: string | null;
  /** When the longest-waiting delivery became claimable; null: no delivery waits. */
  waiting_since: string | null;
  /** At most DEAD_COUNTED_MAX. */
  dead: number;
}

/**
 * Reads the activity of these agents (null: of all active agents), newest first. Unknown ids are omitted. Reads one index entry per
 * webhook for each day with waiting deliveries.
 */
export function readAgentActivity(
  { query }: Pick<Database, 'query'>,
  ids: readonly string[] | null,
): Promise<AgentActivity[]> {
  return query<AgentActivity>({
    name: 'agent-activity',
    plan: 'once',
    text: `
      select a.id as agent_id, ${isoColumn('a.last_seen_at')}, host(a.last_seen_from) as last_seen_from,
        ${isoText('waiting.since')} as waiting_since, dead.count as dead
      from agents a
      cross join lateral (
        select min(due.available_at) as since
        from ${waitingDays('a.id', "'-infinity'")} d
        cross join (
          select webhook_id from subscriptions where agent_id = a.id
          union
          select webhook_id from replay_targets where agent_id = a.id
        ) s
        cross join lateral (
          select available_at from deliveries
          where agent_id = a.id and webhook_id = s.webhook_id and received_at >= day and received_at < day + interval '24 hours'
            and state in ('pending', 'leased') and available_at <= now()
          order by available_at
          limit 1
        ) due
      ) waiting
      cross join lateral (
        select count(*)::int as count
        from (select from deliveries where agent_id = a.id and state = 'dead' limit ${DEAD_COUNTED_MAX}) d
      ) dead
      where a.id = any ($1::uuid[]) or ($1 is null and a.revoked_at is null)
      order by a.created_at desc, a.id desc
      limit ${ACTIVE_AGENTS_MAX}`,
    values: [ids && arrayOf(ids)],
  });
}

/** Records that the agent was seen now. */
export async function writeSighting({ query }: Pick<Database, 'query'>, id: string, address: string): Promise<void> {
  await query({
    name: 'agent-sighting',
    text: 'update agents set last_seen_at = now(), last_seen_from = $2 where id = $1',
    values: [id, address],
  });
}
