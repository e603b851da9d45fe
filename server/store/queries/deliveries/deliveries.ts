/** Deliveries: lists, dead letters by reason, and the end of last leases. Claims and settlements have a file each. */
import type { z } from 'zod';
import { COUNTED_MAX, type DeliveryState, type deadGroupSchema, deliverySchema } from '../../../model/events.ts';
import { concatenated, newest, summedBy } from '../../connect/place.ts';
import type { Database, Queries } from '../../connect/pool.ts';
import { uuidv7Time } from '../../ids.ts';
import { isoText, selectList } from '../../sql.ts';
import { isHeld } from '../claims/held.ts';
import { readEventTypes } from '../events/lists.ts';
import { withinTimeout } from './counts.ts';
import { leaseEnded } from './history.ts';

interface DeliveryFilter {
  agentId?: string | null;
  webhookId?: string | null;
  state?: DeliveryState | null;
  eventId?: string | null;
  /** See isHeld. */
  held?: boolean | null;
  /** The whole reason. */
  reason?: string | null;
  /** ISO; the event was received at this time or later. */
  from?: string | undefined;
  /** ISO; the event was received before this time. */
  to?: string | undefined;
}

export type DeliveryRecord = z.output<typeof deliverySchema>;

type DeliveryRow = Omit<DeliveryRecord, 'event_type'>;

const record = selectList(deliverySchema.omit({ event_type: true }), 'deliveries', {
  // Infinity: set aside, see claims/held.ts.
  available_at: isoText(
    'case when isfinite(deliveries.available_at) then deliveries.available_at else deliveries.received_at end',
  ),
  order_key: `lpad(to_hex(deliveries.order_key), 16, '0')`,
  held: isHeld('deliveries'),
});

/**
 * Lists deliveries, newest first. `before`: id of the last delivery of the previous page. Planned for the given filters: the state
 * selects one of the two tables.
 */
export async function listDeliveries(
  database: Database,
  filter: DeliveryFilter,
  before: string | null,
  limit: number,
): Promise<DeliveryRecord[]> {
  const { agentId, webhookId, state, eventId, held = null, reason, from, to } = filter;
  const isFirstOfAgent = agentId && !eventId && !from && !to && !before;
  const values: unknown[] = [limit];
  const value = (given: unknown) => `$${values.push(given)}`;
  const conditions = [
    agentId && `agent_id = ${value(agentId)}`,
    webhookId && `webhook_id = ${value(webhookId)}`,
    state && `state = ${value(state)}`,
    held === true && `state = 'pending' and deliveries.order_key is not null and ${isHeld('deliveries')}`,
    held === false && `not ${isHeld('deliveries')}`,
    reason && `reason = ${value(reason)}`,
    // The event's time selects the partition.
    eventId && `deliveries.received_at = ${value(uuidv7Time(eventId))} and event_id = ${value(eventId)}`,
    from && `deliveries.received_at >= ${value(from)}`,
    to && `deliveries.received_at < ${value(to)}`,
    before && `(deliveries.received_at, id) < (${value(uuidv7Time(before))}, ${value(before)}::uuid)`,
  ].filter(Boolean);
  const where = ['true', ...conditions].join(' and ');
  const rows = await database.query<DeliveryRow>({
    text: `
      select ${record}
      from ${isFirstOfAgent ? firstOfAgent(where) : `deliveries where ${where}`}
      order by deliveries.received_at desc, id desc
      limit $1`,
    values,
    // The deliveries of an event are in its cell.
    place: eventId ? { id: eventId } : { each: newest(limit, ({ id }) => id) },
  });
  return withTypes(database, rows);
}

/** In a partition by day, and in one table. */
const finished = `state in ('done', 'dead', 'dismissed', 'filtered')`;
const unfinished = `state in ('pending', 'leased') and bytes >= 0`;

/**
 * SQL: the deliveries of an agent that can be among its newest $1. Unfinished ones have no index by age, but one by available_at, which is not
 * before their receipt: what is newer than the last of a page of them is available later than that one was. From the newest delivery of all
 * agents on, Postgres read 270,000 of others first (147 ms).
 */
const firstOfAgent = (where: string) => {
  const page = 'order by received_at desc, id desc limit $1';
  return `(
    (select * from deliveries where ${finished} and ${where} ${page})
    union all
    (select * from (
      select * from deliveries where ${unfinished} and ${where} and available_at >= coalesce((
        select least(min(received_at), min(available_at))
        from (
          select received_at, available_at from (
            select * from deliveries where ${unfinished} and ${where} order by available_at desc limit 4 * $1
          ) deliveries ${page}
        ) newest having count(*) = $1), '-infinity')
      offset 0
    ) deliveries ${page})
  ) deliveries`;
};

/** Adds the types of the events. A statement of its own, planned with its values: its plan has only the partitions of these events. */
async function withTypes(database: Queries, rows: readonly DeliveryRow[]): Promise<DeliveryRecord[]> {
  if (rows.length === 0) return [];
  const eventIds = rows.map((row) => row.event_id);
  const types = await readEventTypes(database, eventIds);
  return rows.map((row) => ({ ...row, event_type: types.get(row.event_id) ?? null }));
}

/** Finds a delivery; with an agent, only if it belongs to that agent. */
export async function findDelivery(
  { query }: Queries,
  agentId: string | null,
  id: string,
): Promise<DeliveryRecord | undefined> {
  const rows = await query<DeliveryRow>({
    name: 'find-delivery',
    text: `select ${record} from deliveries
           where deliveries.received_at = $1 and id = $2 and ($3::uuid is null or agent_id = $3)`,
    values: [uuidv7Time(id), id, agentId],
    place: { id },
  });
  return (await withTypes({ query }, rows))[0];
}

const AT_A_TIME = 1_000;

/** Reason stored for a delivery whose last lease expired without an acknowledgement. */
export const LAST_LEASE_ENDED = 'the last lease expired without an acknowledgement';

/**
 * Turns deliveries whose last lease has expired into dead letters, at most AT_A_TIME per statement. Returns how many. A claim does
 * the same with those it finds (claims/claim.ts); this function covers agents that no longer claim. In both cases the receipt
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
