/** Snoozes of conditions. */
import type { Database, Query } from '../../connect/pool.ts';
import { arrayOf, isoColumn } from '../../sql.ts';

/** See the comments of the table condition_snoozes. */
export interface Snooze {
  condition_id: string;
  until: string;
  state: string | null;
  count: number | null;
  snoozed_at: string;
  snoozed_by: string;
}

/** Reads the snoozes that have not reached their time. @param nowMs Unix milliseconds. */
export function readSnoozes({ query }: Pick<Database, 'query'>, nowMs: number): Promise<Snooze[]> {
  return query<Snooze>({
    name: 'read-snoozes',
    text: `
      select s.condition_id, ${isoColumn('s.until')}, s.state, s.count, ${isoColumn('s.snoozed_at')}, s.snoozed_by
      from condition_snoozes s where s.until > $1`,
    values: [new Date(nowMs).toISOString()],
  });
}

/** Snoozes a condition, in place of an earlier snooze. */
export async function setSnooze(query: Query, snooze: Snooze): Promise<void> {
  const { condition_id, until, state, count, snoozed_at, snoozed_by } = snooze;
  await query({
    text: `
      insert into condition_snoozes (condition_id, until, state, count, snoozed_at, snoozed_by)
      values ($1, $2, $3, $4, $5, $6)
      on conflict (condition_id) do update
      set until = excluded.until, state = excluded.state, count = excluded.count, snoozed_at = excluded.snoozed_at,
        snoozed_by = excluded.snoozed_by`,
    values: [condition_id, until, state, count, snoozed_at, snoozed_by],
  });
}

/** Ends snoozes. */
export async function deleteSnoozes(query: Query, conditionIds: readonly string[]): Promise<void> {
  await query({
    text: 'delete from condition_snoozes where condition_id = any ($1::text[])',
    values: [arrayOf(conditionIds)],
  });
}

/** Deletes the snoozes that have reached their time. */
export async function deleteOldSnoozes({ query }: Pick<Database, 'query'>): Promise<void> {
  await query({ text: 'delete from condition_snoozes where until < now()' });
}
