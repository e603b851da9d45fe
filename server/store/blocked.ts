/** A session that waits for a lock, and what it waits for. */
import type { Database } from './connect/pool.ts';

/** What a session waits for: the lock, and the session that has held or asked for it longest. Null: it does not wait. */
export async function readBlocker({ query }: Pick<Database, 'query'>, pid: number): Promise<string | null> {
  // Only a superuser and the role itself see the name and the time of a session.
  const [row] = await query<{ lock: string; pid: number; name: string | null; since: Date | null }>({
    text: `
      select coalesce(waiting.relation::regclass::text, waiting.locktype) as lock, holder.pid,
        nullif(holder.application_name, '') as name, holder.xact_start as since
      from pg_locks waiting, unnest(pg_blocking_pids(waiting.pid)) as blocking (pid)
      join pg_stat_activity holder on holder.pid = blocking.pid
      where waiting.pid = $1 and not waiting.granted
      order by holder.xact_start limit 1`,
    values: [pid],
  });
  if (row === undefined) return null;
  const { lock, name, since } = row;
  const who = `session ${row.pid}${name === null ? '' : ` (${name})`}`;
  return `the lock of ${lock}, held by ${who}${since === null ? '' : ` since ${since.toISOString()}`}`;
}

/** What a command reports about a migration that was blocked. @param cell absent: home */
export function describeBlocked(waitsFor: string, cell?: { number: number }): string {
  const of = cell === undefined ? '' : ` of cell ${cell.number}`;
  return `the migration${of} waits for ${waitsFor}; it is tried again`;
}
