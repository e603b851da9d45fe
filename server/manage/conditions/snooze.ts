/** Snoozes: a user puts a condition aside for a while. Alerts begin and end as before. */

import { HOUR_MS } from '../../base/time/durations.ts';
import type { Condition, SnoozeSpan } from '../../model/condition-list.ts';
import { conditionOf } from '../../model/conditions.ts';
import type { Actor } from '../../store/audit/actor.ts';
import { record } from '../../store/audit/record.ts';
import type { Database } from '../../store/connect/pool.ts';
import { deleteSnoozes, readSnoozes, type Snooze, setSnooze } from '../../store/queries/alerts/condition-snoozes.ts';

/** Longest time of each span. `change` also ends when the condition changes or goes. */
const SPAN_MS: Record<Exclude<SnoozeSpan, 'none'>, number> = {
  '1h': HOUR_MS,
  '1d': 24 * HOUR_MS,
  change: 168 * HOUR_MS,
};
/** Lists of conditions are cached for up to a minute: a list that is older than a snooze does not end it. */
const LIST_AGE_MS_MAX = 120_000;
/** The conditions with their snoozes. Ends those whose condition has changed or gone. @param nowMs Unix milliseconds. */
export async function withSnoozes(
  database: Pick<Database, 'query'>,
  conditions: readonly Condition[],
  nowMs: number,
): Promise<Condition[]> {
  const snoozes = new Map((await readSnoozes(database, nowMs)).map((one) => [one.condition_id, one]));
  const held = new Map(conditions.map((one) => [one.id, one]));
  const over = [...snoozes.values()].filter((snooze) => isOver(snooze, held.get(snooze.condition_id), nowMs));
  for (const { condition_id } of over) snoozes.delete(condition_id);
  if (over.length > 0)
    await deleteSnoozes(
      database.query,
      over.map(({ condition_id }) => condition_id),
    );
  return conditions.map((condition) => {
    const snooze = snoozes.get(condition.id);
    return snooze === undefined ? condition : { ...condition, snoozed: described(snooze) };
  });
}

function described({ until, state, snoozed_by }: Snooze) {
  return { until, until_change: state !== null, by: snoozed_by };
}

function isOver(snooze: Snooze, held: Condition | undefined, nowMs: number): boolean {
  if (held !== undefined) return snooze.state !== null && hasChanged(snooze, held);
  // What one machine finds, another one does not end.
  const row: { local?: true } | undefined = conditionOf(snooze.condition_id.split(':')[0] as Condition['kind']);
  return row?.local !== true && nowMs - Date.parse(snooze.snoozed_at) > LIST_AGE_MS_MAX;
}

function hasChanged({ state, count }: Snooze, condition: Condition): boolean {
  return state !== stateOf(condition) || (condition.count ?? 0) > (count ?? 0);
}

/** What stays as long as a condition does not change, besides its count: a smaller count is the same condition. */
function stateOf({ since, count, text }: Condition): string {
  return since ?? (count === null ? text : '');
}

/** Snoozes a condition that holds, or ends its snooze, with an audit entry. Returns the condition. */
export async function snooze(
  database: Pick<Database, 'transaction'>,
  actor: Actor,
  condition: Condition,
  span: SnoozeSpan,
  nowMs: number,
): Promise<Condition> {
  const next: Snooze | null =
    span === 'none'
      ? null
      : {
          condition_id: condition.id,
          until: new Date(nowMs + SPAN_MS[span]).toISOString(),
          state: span === 'change' ? stateOf(condition) : null,
          count: span === 'change' ? condition.count : null,
          snoozed_at: new Date(nowMs).toISOString(),
          snoozed_by: actor.name,
        };
  const snoozed = next && described(next);
  const target = { kind: 'condition', id: null, name: condition.text };
  await database.transaction(async (query) => {
    if (next === null) await deleteSnoozes(query, [condition.id]);
    else await setSnooze(query, next);
    const [before, after] = [{ snoozed: condition.snoozed }, { snoozed }];
    await record(query, actor, {
      action: next === null ? 'condition.wake' : 'condition.snooze',
      target,
      before,
      after,
    });
  });
  return { ...condition, snoozed };
}
