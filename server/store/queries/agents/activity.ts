/** What agents do: their last request, what waits for them, and their dead letters. */

import type { z } from 'zod';
import { agentActivitySchema, DEAD_COUNTED_MAX } from '../../../model/agents.ts';
import { lesser, summedBy } from '../../connect/place.ts';
import type { Database } from '../../connect/pool.ts';
import { arrayOf, isoText, selectList } from '../../sql.ts';
import { unjudged } from '../claims/filter.ts';
import { subscribedWebhooks } from './subscriptions.ts';

/** Limit on the agents in one result; equals the page size of the agent list. */
export const ACTIVE_AGENTS_MAX = 200;

/** Deliveries of a webhook with a filter that are looked at for one that the filter has let through. */
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
  dead: 'dead.count',
});

/**
 * Reads the activity of these agents, in slices of ACTIVE_AGENTS_MAX (null: of the newest active agents that are not temporary, at most
 * ACTIVE_AGENTS_MAX). Newest first within a slice. Unknown ids are omitted.
 */
export async function readAgentActivity(
  database: Pick<Database, 'query'>,
  ids: readonly string[] | null,
): Promise<AgentActivity[]> {
  if (ids === null) return readActivitySlice(database, null);
  return inSlices(ids, (some) => readActivitySlice(database, some));
}

async function inSlices<T>(ids: readonly string[], read: (some: readonly string[]) => Promise<T[]>): Promise<T[]> {
  const all: T[] = [];
  for (let from = 0; from < ids.length; from += ACTIVE_AGENTS_MAX)
    all.push(...(await read(ids.slice(from, from + ACTIVE_AGENTS_MAX))));
  return all;
}

/** Home knows all agents, and when they were seen. */
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
 * SQL: since when a delivery that can be claimed waits for the agent `a`. Reads one index entry per webhook, and of one with a filter up to
 * UNJUDGED_READ_MAX: its filter may drop what it has not judged.
 */
const waiting = `(
  select min(due.available_at) as since
  from ${subscribedWebhooks('a.id')} s
  cross join lateral (
    select min(d.available_at) as available_at
    from (
      select state, leases, history, available_at from deliveries
      where agent_id = a.id and webhook_id = s.webhook_id
        and state in ('pending', 'leased') and available_at <= now()
      order by available_at
      limit case when s.filter is null or s.suspended then 1 else ${UNJUDGED_READ_MAX} end
    ) d
    where s.filter is null or s.suspended or not (${unjudged('d')})
  ) due
) waiting`;

interface Waiting {
  agent_id: string;
  since: string;
}

/** Reads since when deliveries wait for these agents, in slices of ACTIVE_AGENTS_MAX. Agents for which none waits are omitted. */
export function readWaiting({ query }: Pick<Database, 'query'>, ids: readonly string[]): Promise<Waiting[]> {
  return inSlices(ids, (some) =>
    query<Waiting>({
      name: 'agents-waiting',
      text: `
        select a.id as agent_id, ${isoText('waiting.since')} as since
        from unnest($1::uuid[]) a (id) cross join lateral ${waiting}
        where waiting.since is not null`,
      values: [arrayOf(some)],
      place: { each: longestWaiting, lenient: true },
    }),
  );
}

const longestWaiting = summedBy<Waiting>(
  ({ agent_id }) => agent_id,
  (one, other) => ({ ...one, since: lesser(one.since, other.since)! }),
);

function readActivitySlice(
  { query }: Pick<Database, 'query'>,
  ids: readonly string[] | null,
): Promise<AgentActivity[]> {
  return query<AgentActivity>({
    // Two statements: a plan for any ids would read all agents before it takes the newest.
    name: ids === null ? 'activity-of-newest-agents' : 'agent-activity',
    plan: 'once',
    text: `
      select ${activity}
      from agents a
      cross join lateral ${waiting}
      cross join lateral (
        select exists (
          select from ${subscribedWebhooks('a.id')} s
          join deliveries d on d.agent_id = a.id and d.webhook_id = s.webhook_id and d.state = 'leased' and d.available_at > now()
        ) as found
      ) working
      cross join lateral (
        select count(*)::int as count
        from (select from deliveries where agent_id = a.id and state = 'dead' limit ${DEAD_COUNTED_MAX}) d
      ) dead
      where ${ids === null ? 'a.revoked_at is null and not a.temporary' : 'a.id = any ($1::uuid[])'}
      order by a.created_at desc, a.id desc
      limit ${ACTIVE_AGENTS_MAX}`,
    values: ids === null ? [] : [arrayOf(ids)],
    place: { each: together, lenient: true },
  });
}
