/** Signs of conditions: refused requests, rejections, dead letters and old secrets. */
import { DEAD_COUNTED_MAX } from '../../../model/agents.ts';
import { QUARTER_SECONDS } from '../../../model/history.ts';
import { earliestBy } from '../../connect/place.ts';
import type { Queries } from '../../connect/pool.ts';
import { arrayOf, isoColumn, isoText } from '../../sql.ts';

/** Limit on the webhooks in one result. A list of this length may be incomplete. */
export const WEBHOOKS_MAX = 1_000;
/** Limit on the agents in one result. */
export const AGENTS_MAX = 10_000;
/** Limit on the dead letters that one scan reads. */
export const DEAD_READ_MAX = 100_000;
/** Up to this number of agents, dead letters are looked up by agent: 0.1 ms each, over all partitions. A scan of DEAD_READ_MAX takes 60. */
const LOOKED_UP_MAX = 200;

/** The requests to a webhook in an hour, with the refused ones by kind. */
export interface RefusedRequests {
  webhook_id: string;
  name: string;
  accepted: number;
  rejected: number;
  signature_scheme: string;
  limited: number;
  /** Answered 411, 413 or 503. */
  refused: number;
  enabled: boolean;
  /** The larger number of rejections in a minute, of the current minute and the one before. */
  minute_max: number;
  /** Start of the first of these two minutes with rejections; null when neither has any. */
  minute_at: string | null;
  /** Start of the first and of the last minute with rejections, and the number of such minutes. */
  rejected_from: string | null;
  rejected_to: string | null;
  rejected_minutes: number;
  /** Start of the last minute in which a request verified. */
  verified_at: string | null;
  /** The newest rejection that is kept, and whether it was accepted or verified at its last check; null: none is kept. */
  newest_at: string | null;
  newest_is_fixed: boolean | null;
}

/**
 * Reads the webhooks with refused requests in the 60 minutes before a time, most refused first. Reads one row a minute of each of them: the
 * index history_refused leaves out all others. While tens of thousands of webhooks have events, minutes have refused requests alone, and
 * accepted ones are read from the quarters of an hour.
 * @param nowMs Unix milliseconds.
 */
export function readRefusedRequests({ query }: Queries, nowMs: number): Promise<RefusedRequests[]> {
  return query<RefusedRequests>({
    text: `
      select w.id as webhook_id, w.name, w.enabled, w.signature_scheme, greatest(h.accepted, q.accepted) as accepted, h.rejected, h.limited, h.refused, h.minute_max, ${isoColumn('h.minute_at')},
        ${isoColumn('h.rejected_from')}, ${isoColumn('h.rejected_to')}, h.rejected_minutes, ${isoText('greatest(h.verified_at, q.verified_at)')} as verified_at,
        ${isoColumn('r.newest_at')}, r.newest_is_fixed
      from (
        select distinct webhook_id from history
        where step = 60 and at >= $1::timestamptz - interval '1 hour' and at <= $1
          and rejected + limited + length_required + too_large + unavailable > 0
      ) refusing join webhooks w on w.id = refusing.webhook_id
      cross join lateral (
        select sum(accepted)::float8 as accepted, sum(rejected)::float8 as rejected, sum(limited)::float8 as limited,
          sum(length_required + too_large + unavailable)::float8 as refused,
          coalesce(max(rejected) filter (where at > $1::timestamptz - interval '2 minutes'), 0)::float8 as minute_max,
          min(at) filter (where rejected > 0 and at > $1::timestamptz - interval '2 minutes') as minute_at,
          min(at) filter (where rejected > 0) as rejected_from, max(at) filter (where rejected > 0) as rejected_to,
          (count(*) filter (where rejected > 0))::int as rejected_minutes,
          max(at) filter (where accepted > 0 or duplicates > 0) as verified_at
        from history
        where webhook_id = w.id and step = 60 and at >= $1::timestamptz - interval '1 hour' and at <= $1
      ) h
      cross join lateral (
        select coalesce(sum(accepted), 0)::float8 as accepted, max(at) filter (where accepted > 0 or duplicates > 0) as verified_at
        from history
        where webhook_id = w.id and step = 900 and at >= $1::timestamptz - interval '1 hour' and at <= $1
      ) q
      left join lateral (
        select received_at as newest_at, accepted_event_id is not null or coalesce(checked_reason = 'verifies_now', false) as newest_is_fixed
        from rejections where webhook_id = w.id order by id desc limit 1
      ) r on true
      where w.deleted_at is null
      order by h.rejected + h.limited + h.refused desc, w.id
      limit ${WEBHOOKS_MAX}`,
    values: [new Date(nowMs).toISOString()],
  });
}

/** Rejections of a webhook with the same reason and header. */
export interface RejectionGroup {
  webhook_id: string;
  reason: string;
  header: string | null;
  count: number;
  first_at: string;
  /** The newest verifies now. */
  newest_is_fixed: boolean;
}

/** Limit on the groups of a webhook or an agent. Without it, a sender that varies headers, or an agent its reasons, would create one each. */
const GROUPS_MAX = 100;

/**
 * Groups the rejections of these webhooks that are kept since a time and were not accepted: the largest, up to GROUPS_MAX of each.
 * @param sinceMs Unix milliseconds.
 */
export async function readRejectionGroups(
  { query }: Queries,
  webhookIds: readonly string[],
  sinceMs: number,
): Promise<RejectionGroup[]> {
  if (webhookIds.length === 0) return [];
  return query<RejectionGroup>({
    text: `
      select webhook_id, reason, header, count, first_at, newest_is_fixed
      from (
        select r.webhook_id, r.reason::text as reason, r.header, count(*)::int as count, ${isoText('min(r.received_at)')} as first_at,
          (array_agg(coalesce(r.checked_reason = 'verifies_now', false) order by r.id desc))[1] as newest_is_fixed,
          row_number() over (partition by r.webhook_id order by count(*) desc, min(r.received_at)) as rank
        from rejections r
        where r.webhook_id = any ($1::uuid[]) and r.received_at >= $2 and r.accepted_event_id is null
        group by r.webhook_id, r.reason, r.header
      ) g
      where rank <= ${GROUPS_MAX}
      order by count desc, first_at`,
    values: [arrayOf(webhookIds), new Date(sinceMs).toISOString()],
  });
}

interface DeadGroup {
  agent_id: string;
  reason: string | null;
  /** All groups that are not among the GROUPS_MAX largest. */
  is_rest: boolean;
  count: number;
  first_at: string;
}

/**
 * Groups the dead letters of these agents by reason, the largest group first, and the small groups of an agent as one. Many agents are read in
 * one scan if there are at most DEAD_READ_MAX dead letters; else up to DEAD_COUNTED_MAX of each agent: a second for 10,000 agents.
 */
export async function readDeadGroups(
  database: Queries,
  agentIds: readonly string[],
  max = DEAD_READ_MAX,
): Promise<DeadGroup[]> {
  if (agentIds.length === 0) return [];
  const limit = max + 1;
  if (agentIds.length > LOOKED_UP_MAX) {
    const all = await groupDead(database, `${dead} order by received_at desc, id desc limit ${limit}`, []);
    const meant = new Set(agentIds);
    if (all.reduce((sum, { count }) => sum + count, 0) < limit)
      return all.filter(({ agent_id }) => meant.has(agent_id));
  }
  const each = `${dead} and agent_id = a.id limit ${DEAD_COUNTED_MAX}`;
  return groupDead(database, `select d.* from unnest($1::uuid[]) a (id) cross join lateral (${each}) d`, [
    arrayOf(agentIds),
  ]);
}

const dead = `select agent_id, reason, finished_at from deliveries where state = 'dead'`;

/** @param source SQL: dead letters */
function groupDead({ query }: Queries, source: string, values: string[]): Promise<DeadGroup[]> {
  return query<DeadGroup>({
    text: `
      select agent_id, case when not is_rest then reason end as reason, is_rest, sum(count)::int as count, ${isoText('min(first_at)')} as first_at
      from (
        select agent_id, reason, count(*) as count, min(finished_at) as first_at,
          row_number() over (partition by agent_id order by count(*) desc, min(finished_at)) > ${GROUPS_MAX} as is_rest
        from (${source}) d
        group by agent_id, reason
      ) g
      group by 1, 2, 3
      order by sum(count) desc, min(first_at)`,
    values,
    place: {
      each: earliestBy(({ agent_id, reason, is_rest }) => JSON.stringify([agent_id, reason, is_rest]), 'first_at'),
      lenient: true,
    },
  });
}

/**
 * Counts the dead letters of each agent since a time, up to DEAD_READ_MAX of all agents.
 * @param sinceMs Unix milliseconds.
 */
export function readNewDeadLetters(
  { query }: Queries,
  sinceMs: number,
): Promise<Omit<DeadGroup, 'reason' | 'is_rest'>[]> {
  return query<Omit<DeadGroup, 'reason' | 'is_rest'>>({
    text: `
      select agent_id, count(*)::int as count, ${isoText('min(finished_at)')} as first_at
      from (select agent_id, finished_at from deliveries where state = 'dead' and finished_at > $1 limit ${DEAD_READ_MAX}) d
      group by agent_id`,
    values: [new Date(sinceMs).toISOString()],
    place: { each: earliestBy(({ agent_id }) => agent_id, 'first_at'), lenient: true },
  });
}

/** Reads the agents that are neither revoked nor temporary: the oldest AGENTS_MAX, so that a new agent takes the place of no other. */
export function readActiveAgents({
  query,
}: Queries): Promise<{ id: string; name: string; paused_at: string | null }[]> {
  return query({
    text: `select id, name, ${isoColumn('paused_at')} from agents where revoked_at is null and not temporary
           order by created_at, id limit ${AGENTS_MAX}`,
  });
}

/** Returns the ids of deleted webhooks among the subjects of these rows. */
export async function readDeletedWebhooks(
  { query }: Queries,
  about: readonly { subject_id: string }[],
): Promise<ReadonlySet<string>> {
  if (about.length === 0) return new Set();
  const rows = await query<{ id: string }>({
    text: 'select id from webhooks where id = any ($1::uuid[]) and deleted_at is not null',
    values: [arrayOf(about.map(({ subject_id }) => subject_id))],
  });
  return new Set(rows.map(({ id }) => id));
}

/**
 * Reads the webhooks whose previous secret was used in the last hour, and ends within a day and half of its overlap.
 * @param nowMs Unix milliseconds.
 */
export function readUsedOldSecrets(
  { query }: Queries,
  nowMs: number,
): Promise<{ webhook_id: string; name: string; rotated_at: string; ends_at: string }[]> {
  return query({
    text: `
      select w.id as webhook_id, w.name, ${isoText('n.created_at')} as rotated_at, ${isoText('o.expires_at')} as ends_at
      from webhook_secrets o
      join webhook_secrets n on n.webhook_id = o.webhook_id and n.slot = 'current'
      join webhooks w on w.id = o.webhook_id and w.deleted_at is null
      where o.slot = 'previous' and o.expires_at > $1
        and o.expires_at < $1::timestamptz + least(interval '1 day', (o.expires_at - n.created_at) / 2)
        and exists (
          select from history h
          where h.webhook_id = o.webhook_id and h.step = ${QUARTER_SECONDS} and h.at > $1::timestamptz - interval '1 hour' and h.by_previous > 0)
      order by o.expires_at
      limit ${WEBHOOKS_MAX}`,
    values: [new Date(nowMs).toISOString()],
  });
}
