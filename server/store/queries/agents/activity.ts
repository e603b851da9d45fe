/** What agents do: their last request, what waits for them, and their dead letters. */
import type { z } from 'zod';
import { agentActivitySchema, DEAD_COUNTED_MAX } from '../../../model/agents.ts';
import { earliestBy, lesser, summedBy } from '../../connect/place.ts';
import type { Queries } from '../../connect/pool.ts';
import { arrayOf, isoText, selectList } from '../../sql.ts';
import { unjudged } from '../claims/candidates.ts';
import { due, underLease } from '../claims/room.ts';
import { hasFilters, subscribedWebhooks } from './subscriptions.ts';

/** Limit on the agents in one result; equals the page size of the agent list. */
export const ACTIVE_AGENTS_MAX = 200;

/** Deliveries of a webhook with a filter that are read in search of one that the filter has let through. */
const UNJUDGED_READ_MAX = 1_000;

/** Without the filters, see events/filter.ts, and the quarters of an hour, see history.ts. */
const activitySchema = agentActivitySchema.omit({ filters: true, quarters: true });
type AgentActivity = z.output<typeof activitySchema>;

const activity = selectList(activitySchema, 'a', {
  agent_id: 'a.id',
  last_seen_from: 'host(a.last_seen_from)',
  previous_credential_used_at: isoText('a.previous_used_at'),
  waiting_since: isoText('waiting.since'),
  working: 'working.found',
  paused: 'a.paused_at is not null',
  dead: 'dead.count',
});

/** The rows of all cells as one for each agent. Other members are those of home, which has all agents and their last requests. */
const together = summedBy<AgentActivity>(
  ({ agent_id }) => agent_id,
  (one, other) => ({
    ...one,
    waiting_since: lesser(one.waiting_since, other.waiting_since),
    working: one.working || other.working,
    dead: Math.min(DEAD_COUNTED_MAX, one.dead + other.dead),
  }),
);

/**
 * SQL: since when a claimable delivery waits for the agent `a`. Reads one index entry; for an agent with filters one for each webhook, and up
 * to UNJUDGED_READ_MAX for a webhook with a filter. Without `offset 0` Postgres evaluates it twice.
 */
const waiting = `(
  select case when not ${hasFilters('a.id')} then (select min(available_at) ${due('a.id')}) else (
    select min(first.available_at)
    from ${subscribedWebhooks('a.id')} s
    cross join lateral (
      select min(d.available_at) as available_at
      from (
        select state, leases, history, available_at from deliveries
        where agent_id = a.id and webhook_id = s.webhook_id and state in ('pending', 'leased') and available_at <= now()
        order by available_at
        limit case when s.filter is null or s.suspended then 1 else ${UNJUDGED_READ_MAX} end
      ) d
      where s.filter is null or s.suspended or not (${unjudged('d')})
    ) first
  ) end as since
  offset 0
) waiting`;

/** Reads since when deliveries wait for these agents (null: for all). Agents for which none waits are omitted. */
export function readWaiting(
  { query }: Queries,
  ids: readonly string[] | null,
): Promise<{ agent_id: string; since: string; paused: boolean }[]> {
  return query({
    name: ids === null ? 'all-agents-waiting' : 'agents-waiting',
    plan: 'keyed',
    text: `
      select a.id as agent_id, ${isoText('waiting.since')} as since, a.paused_at is not null as paused
      from ${ids === null ? 'agents a' : 'unnest($1::uuid[]) given join agents a on a.id = given'} cross join lateral ${waiting}
      where waiting.since is not null`,
    values: ids === null ? [] : [arrayOf(ids)],
    place: { each: earliestBy(({ agent_id }) => agent_id, 'since'), lenient: true },
  });
}

/**
 * Reads the activity of these agents (null: of the active agents that are not temporary), newest first, at most ACTIVE_AGENTS_MAX. Unknown
 * ids are omitted.
 */
export function readAgentActivity({ query }: Queries, ids: readonly string[] | null): Promise<AgentActivity[]> {
  return query<AgentActivity>({
    // Two statements: a plan for any ids would read all agents before it takes the newest.
    name: ids === null ? 'activity-of-newest-agents' : 'agent-activity',
    plan: 'keyed',
    text: `
      select ${activity}
      from ${ids === null ? 'agents a' : 'unnest($1::uuid[]) given join agents a on a.id = given'}
      cross join lateral ${waiting}
      cross join lateral (select count(*) > 0 as found from (${underLease('a.id')} limit 1) leased) working
      cross join lateral (
        select count(*)::int as count
        from (select from deliveries where agent_id = a.id and state = 'dead' limit ${DEAD_COUNTED_MAX}) d
      ) dead
      where ${ids === null ? 'a.revoked_at is null and not a.temporary' : 'true'}
      order by a.created_at desc, a.id desc
      limit ${ACTIVE_AGENTS_MAX}`,
    values: ids === null ? [] : [arrayOf(new Set(ids))],
    place: { each: together, lenient: true },
  });
}
