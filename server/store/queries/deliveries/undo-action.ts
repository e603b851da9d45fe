/** Undoes replays and dismissals of many deliveries (actions.ts). */
import { z } from 'zod';
import { expected } from '../../connect/expected.ts';
import { concatenated } from '../../connect/place.ts';
import type { Database } from '../../connect/pool.ts';
import { uuidv7Time } from '../../ids.ts';
import { arrayOf } from '../../sql.ts';
import { type ActionKind, newLane } from './actions.ts';
import { userActed } from './history.ts';

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
export async function undoAction({ query }: Pick<Database, 'query'>, id: string): Promise<Undone | null> {
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
  // What was not dead waits again. Others of its key may have begun since.
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

/** Deletes actions that can no longer be undone. */
export async function deleteOldActions({ query }: Pick<Database, 'query'>): Promise<void> {
  await query({
    text: `delete from delivery_actions where created_at < now() - interval '${UNDO_HOURS} hours'`,
    place: { each: concatenated, lenient: true },
  });
}
