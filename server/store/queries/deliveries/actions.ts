/** What users do to finished deliveries: replays and dismissals, of one delivery or of many, which can be undone. */
import { z } from 'zod';
import type { DeliveryState } from '../../../model/events.ts';
import { concatenated, lesser } from '../../connect/place.ts';
import type { Queries } from '../../connect/pool.ts';
import { expected } from '../../connect/unavailable.ts';
import { uuidv7Time } from '../../ids.ts';
import { arrayOf, isoText } from '../../sql.ts';
import { insertTargets, type ReplayTarget, recordTargets, targetsMade } from '../replays/targets.ts';
import { userActed } from './history.ts';

/**
 * SQL assignments: the deliveries that one statement replays get a lane of their own, in which they are ordered. Each subquery is evaluated
 * once.
 */
const newLane = `
  order_lane = case when d.order_key is not null then (select 1 + (random() * 4503599627370495)::bigint) end,
  order_number = case when d.order_key is not null then (select nextval('order_numbers')) end`;

/** SQL assignments of a user's action on the delivery `d`. @param action SQL: id of an action on many deliveries; null: on a single one */
const changes = {
  replay: (action: string) =>
    `state = 'pending', attempts = 0, available_at = now(), finished_at = null, history = ${userActed('replayed', action)}, ${newLane}`,
  dismissal: (action: string) => `state = 'dismissed', history = ${userActed('dismissed', action)}`,
};

/** What a user does to finished deliveries. A replay makes them pending again, a dismissal ends dead ones for good. */
export type ActionKind = keyof typeof changes;

/** Makes a finished delivery pending again, with zero attempts. Returns false when no finished delivery has this id. */
export async function replayDelivery({ query }: Queries, id: string): Promise<boolean> {
  const [row] = await query<{ count: number; targets: ReplayTarget[] }>({
    text: `
      with again as (
        update deliveries d set ${changes.replay('null')}
        where received_at = $1 and id = $2 and state in ('dead', 'done', 'dismissed', 'filtered') returning agent_id, webhook_id
      ), targets as (${insertTargets})
      select (select count(*)::int from again) as count, ${targetsMade} as targets`,
    values: [uuidv7Time(id), id],
    place: { id },
  });
  await recordTargets(query, row!.targets);
  return row!.count > 0;
}

/** Dismisses a dead delivery. Returns false when no dead delivery has this id. */
export async function dismissDelivery({ query }: Queries, id: string): Promise<boolean> {
  const rows = await query({
    text: `update deliveries d set ${changes.dismissal('null')} where received_at = $1 and id = $2 and state = 'dead' returning id`,
    values: [uuidv7Time(id), id],
    place: { id },
  });
  return rows.length > 0;
}

/** Limit on the deliveries changed by one action. */
export const ACTED_MAX = 10_000;

export interface ActionOrder {
  kind: ActionKind;
  /** Null: any of these states, for a replay of deliveries that are named. */
  state: Extract<DeliveryState, 'dead' | 'done' | 'dismissed' | 'filtered'> | null;
  /** Only these deliveries; undefined: all that match. */
  ids?: readonly string[] | undefined;
  /** Null: all agents; for a replay those that are not revoked. */
  agentId: string | null;
  /** Null: all webhooks. */
  webhookId: string | null;
  /** Undefined: any reason; null: those without one. */
  reason?: string | null | undefined;
  /** Only deliveries that finished before this time, ISO; undefined: before now. */
  finishedBefore?: string | undefined;
}

/** Now, by the clock that set finished_at, rounded up to the precision of ISO text. */
const now = `date_trunc('milliseconds', now()) + interval '1 millisecond'`;

/**
 * Replays or dismisses all deliveries in this state, oldest first, at most ACTED_MAX of a cell. Returns their number, and the time before
 * which they had finished. A call that continues gives that time: otherwise it would replay again what agents acknowledged since. The action
 * is stored if any delivery changed. Call in a transaction: joins are restricted so that each row is looked up in its own partition.
 * @param id a new uuid, for the action
 */
export async function actOnDeliveries(
  { query }: Queries,
  id: string,
  { kind, state, ids, agentId, webhookId, reason, finishedBefore }: ActionOrder,
): Promise<{ count: number; finishedBefore: string }> {
  await query({ text: 'set local enable_hashjoin to off; set local enable_mergejoin to off', place: 'session' });
  const values: unknown[] = [id, ACTED_MAX, finishedBefore ?? null];
  const value = (given: unknown) => `$${values.push(given)}`;
  const conditions = [
    state === null ? `state in ('dead', 'done', 'dismissed', 'filtered')` : `state = '${state}'`,
    // The times select the partitions.
    ids &&
      `received_at = any (${value(arrayOf(new Set(ids.map(uuidv7Time))))}::timestamptz[]) and id = any (${value(arrayOf(ids))}::uuid[])`,
    'finished_at < (select at from cut_off)',
    agentId !== null && `agent_id = ${value(agentId)}`,
    webhookId !== null && `webhook_id = ${value(webhookId)}`,
    reason === null && 'reason is null',
    typeof reason === 'string' && `reason = ${value(reason)}`,
    agentId === null &&
      kind === 'replay' &&
      'exists (select from agents a where a.id = agent_id and a.revoked_at is null)',
  ].filter(Boolean);
  const [row] = await query<Acted>({
    text: `
      with cut_off as (select coalesce($3::timestamptz, ${now}) as at
      ), finished as (
        select received_at, id, webhook_id from deliveries
        where ${conditions.join(' and ')}
        order by received_at, id limit $2 for update skip locked
      ), again as (
        update deliveries d set ${changes[kind]('$1::uuid')} from finished f
        where d.received_at = f.received_at and d.id = f.id and d.webhook_id = f.webhook_id
        returning d.id, d.agent_id, d.webhook_id
      ), targets as (${kind === 'replay' ? insertTargets : 'select from again where false'}
      ), action as (
        insert into delivery_actions (id, kind, delivery_ids)
        select $1, '${kind}', array_agg(id) from again having count(*) > 0
      )
      select (select count(*)::int from again) as count, ${isoText('at')} as "finishedBefore", ${targetsMade} as targets from cut_off`,
    values,
    place: { each: (byCell) => [byCell.flat().reduce(together)] },
  });
  await recordTargets(query, row!.targets);
  return expected(actedSchema, row);
}

const actedSchema = z.object({ count: z.int(), finishedBefore: z.iso.datetime() });
type Acted = z.output<typeof actedSchema> & { targets: ReplayTarget[] };

/** Joins the results of two cells. Their clocks differ; the earlier time counts, so that a call that continues replays nothing twice. */
function together(one: Acted, other: Acted): Acted {
  return {
    count: one.count + other.count,
    finishedBefore: lesser(one.finishedBefore, other.finishedBefore)!,
    targets: [...one.targets, ...other.targets],
  };
}

/** How long an action can be undone. */
const UNDO_HOURS = 24;

/** `restored`: deliveries that are what they were before the action. The `others` were claimed, or changed by a user, since. */
export interface Undone {
  kind: ActionKind;
  restored: number;
  others: number;
}

/**
 * Restores the deliveries of an action to which nothing has happened since: replayed ones that still wait for their first claim, and
 * dismissed ones. Returns null when the action does not exist, is too old, or was undone. Call in a transaction.
 */
export async function undoAction({ query }: Queries, id: string): Promise<Undone | null> {
  const [found] = await query<Action>({
    text: `
      update delivery_actions set undone_at = now()
      where id = $1 and undone_at is null and created_at > now() - interval '${UNDO_HOURS} hours'
      returning kind, delivery_ids as ids`,
    values: [id],
    place: { each: (byCell) => joined(byCell.flat()) },
  });
  if (found === undefined) return null;
  const action = expected(actionSchema, found);
  await query({ text: 'set local enable_hashjoin to off; set local enable_mergejoin to off', place: 'session' });
  const [outcome, state] = action.kind === 'replay' ? ['replayed', 'pending'] : ['dismissed', 'dismissed'];
  // A delivery that was pending waits again, in a new lane, because others of its key may have begun since.
  const again = action.kind === 'replay' ? '' : `, available_at = least(d.available_at, now()), ${newLane}`;
  const rows = await query({
    text: `
      update deliveries d
      set state = d.history -> -1 ->> 'state', attempts = (d.history -> -1 ->> 'attempts')::int,
        finished_at = (d.history -> -1 ->> 'finished_at')::timestamptz, history = ${userActed('restored', 'null')}${again}
      from unnest($2::uuid[], $3::timestamptz[]) r (id, received_at)
      where d.received_at = r.received_at and d.id = r.id and d.state = '${state}'
        and d.history -> -1 ->> 'outcome' = '${outcome}' and d.history -> -1 ->> 'action' = $1
      returning 1`,
    values: [id, arrayOf(action.ids), arrayOf(action.ids.map(uuidv7Time))],
    place: { ids: action.ids },
  });
  return { kind: action.kind, restored: rows.length, others: action.ids.length - rows.length };
}

const actionSchema = z.object({ kind: z.enum(['replay', 'dismissal']), ids: z.array(z.guid()) });
type Action = z.output<typeof actionSchema>;

/** An action has a row in each cell that has some of its deliveries. */
function joined(parts: readonly Action[]): Action[] {
  const [first] = parts;
  return first === undefined ? [] : [{ kind: first.kind, ids: parts.flatMap(({ ids }) => ids) }];
}

/** Deletes actions that are too old to be undone. */
export async function deleteOldActions({ query }: Queries): Promise<void> {
  await query({
    text: `delete from delivery_actions where created_at < now() - interval '${UNDO_HOURS} hours'`,
    place: { each: concatenated, lenient: true },
  });
}
