/** Unfinished deliveries of revoked agents: no agent fetches them, until a user dismisses them or moves them to another agent. */
import { summed, summedBy } from '../../connect/place.ts';
import type { Queries, Query } from '../../connect/pool.ts';
import { arrayOf } from '../../sql.ts';
import { ACTED_MAX } from '../deliveries/actions.ts';
import { userActed } from '../deliveries/history.ts';
import { insertTargets, type ReplayTarget, recordTargets, targetsMade } from '../replays/targets.ts';
import { AGENTS_MAX } from './condition-signs.ts';

/** Limit on the deliveries that are counted of an agent. */
const UNDELIVERED_COUNTED_MAX = 100_000;

/** SQL: the number of unfinished deliveries of the agent `a`, counted up to the limit. */
const undelivered = `lateral (
  select count(*)::int as count
  from (select from deliveries where agent_id = a.id and state in ('pending', 'leased') limit ${UNDELIVERED_COUNTED_MAX}) d) u`;

/**
 * Reads the revoked agents with unfinished deliveries, those revoked last first, at most AGENTS_MAX. Temporary ones are removed with their
 * deliveries.
 */
export function readUndelivered({ query }: Queries): Promise<{ id: string; name: string; count: number }[]> {
  return query({
    text: `
      select a.id, a.name, u.count
      from agents a, ${undelivered}
      where a.revoked_at is not null and not a.temporary and u.count > 0
      order by a.revoked_at desc
      limit ${AGENTS_MAX}`,
    place: { each: summedBy(({ id }) => id), lenient: true },
  });
}

/** Counts the unfinished deliveries of the revoked agents among these, by agent. */
export async function countUndelivered(query: Query, agentIds: readonly string[]): Promise<Map<string, number>> {
  const rows = await query<{ id: string; count: number }>({
    text: `select a.id, u.count from agents a, ${undelivered} where a.id = any ($1::uuid[]) and a.revoked_at is not null`,
    values: [arrayOf(agentIds)],
    place: { each: summedBy(({ id }) => id), lenient: true },
  });
  return new Map(rows.map(({ id, count }) => [id, count]));
}

/** Unfinished deliveries of the agent $1, oldest first, at most ACTED_MAX. */
const unfinished = `
  select received_at, id, webhook_id from deliveries
  where agent_id = $1 and state in ('pending', 'leased')
  order by available_at limit ${ACTED_MAX} for update skip locked`;
const isChosen = 'd.received_at = f.received_at and d.id = f.id and d.webhook_id = f.webhook_id';

/**
 * Dismisses unfinished deliveries of an agent, at most ACTED_MAX. Returns how many. Call in a transaction.
 * @param actionId a new uuid, by which the action can be undone
 */
export async function dismissUndelivered({ query }: Queries, agentId: string, actionId: string): Promise<number> {
  const [row] = await query<{ count: number }>({
    text: `
      with f as (${unfinished}
      ), ended as (
        update deliveries d set state = 'dismissed', finished_at = now(), history = ${userActed('dismissed', '$2::uuid')}
        from f where ${isChosen}
        returning d.id
      ), action as (
        insert into delivery_actions (id, kind, delivery_ids)
        select $2, 'dismissal', array_agg(id) from ended having count(*) > 0
      )
      select count(*)::int as count from ended`,
    values: [agentId, actionId],
    place: { each: summed },
  });
  return row!.count;
}

interface Moved {
  count: number;
  targets: ReplayTarget[];
}

function both(one: Moved, other: Moved): Moved {
  return { count: one.count + other.count, targets: [...one.targets, ...other.targets] };
}

/**
 * Moves unfinished deliveries to another agent, at most ACTED_MAX, with zero attempts. The other agent's filters do not judge them. A delivery
 * of an event that the other agent already has is not moved. Returns how many were moved. Call in a transaction.
 */
export async function moveUndelivered({ query }: Queries, agentId: string, toAgentId: string): Promise<number> {
  const [row] = await query<Moved>({
    text: `
      with f as (
        select received_at, id, webhook_id from deliveries m
        where agent_id = $1 and state in ('pending', 'leased')
          and not exists (
            select from deliveries o
            where o.received_at = m.received_at and o.webhook_id = m.webhook_id and o.event_id = m.event_id and o.agent_id = $2)
        order by available_at limit ${ACTED_MAX} for update skip locked
      ), again as (
        update deliveries d
        set agent_id = $2, state = 'pending', attempts = 0, available_at = now(), history = ${userActed('replayed', 'null')},
          order_key = null, order_lane = null, order_number = null
        from f where ${isChosen}
        returning d.agent_id, d.webhook_id
      ), targets as (${insertTargets})
      select (select count(*)::int from again) as count, ${targetsMade} as targets`,
    values: [agentId, toAgentId],
    place: { each: (byCell) => [byCell.flat().reduce(both)] },
  });
  await recordTargets(query, row!.targets);
  return row!.count;
}
