/** Checks of autovacuum, jobs, and the clock difference between the database and this machine. */

import { advice, type Check, ok, problem } from '../../model/check.ts';
import type { Database } from '../../store/connect/pool.ts';
import { hasTable } from '../../store/migrate.ts';
import { readDatabaseClock } from '../../store/queries/server-state.ts';

/** Above this difference, leases and limits of time are off by a noticeable amount. */
const CLOCK_ADVICE_MS = 1_000;
/** Above this difference, times from Weir (events) and times from the database (leases, sessions) contradict each other. */
const CLOCK_DIFFERENCE_MAX_MS = 10_000;
/** Maximum number of tables named in a finding; further tables are only counted. */
const NAMED_MAX = 5;

/** Each delivery is updated several times. Without autovacuum the dead rows stay, and every claim reads them. */
export async function checkAutovacuum(database: Database): Promise<Check> {
  const name = 'autovacuum';
  const [row] = await database.query<{ off: string[]; tables: string[] }>({
    text: `
      select array_remove(array[
          case current_setting('autovacuum') when 'off' then 'autovacuum' end,
          case current_setting('track_counts') when 'off' then 'track_counts' end
        ], null) as off,
        array(
          select c.relname::text from pg_class c left join pg_class toast on toast.oid = c.reltoastrelid
          where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and exists (
            select from pg_options_to_table(c.reloptions || toast.reloptions)
            where option_name = 'autovacuum_enabled' and not option_value::boolean)
          order by 1
        ) as tables`,
  });
  const { off, tables } = row!;
  if (off.length > 0)
    return problem(
      name,
      `${off.join(' and ')} ${off.length === 1 ? 'is' : 'are'} off: dead rows are not removed, and claims keep getting slower`,
      `${off.map((setting) => `alter system set ${setting} = on;`).join(' ')} select pg_reload_conf();`,
    );
  if (tables.length === 0) return ok(name, 'on, for every table');
  const more = tables.length > NAMED_MAX ? ` and ${tables.length - NAMED_MAX} more` : '';
  return problem(
    name,
    `off for ${tables.slice(0, NAMED_MAX).join(', ')}${more}: their dead rows are not removed, and queries keep getting slower`,
    `for each table: alter table ${tables[0]} reset (autovacuum_enabled, toast.autovacuum_enabled)`,
  );
}

/**
 * Ignores a difference that the response time of the query explains.
 * @param nowMs the clock of this machine, Unix milliseconds.
 */
export async function checkClock(database: Database, nowMs: () => number): Promise<Check> {
  const name = 'clock';
  const beforeMs = nowMs();
  const thereMs = await readDatabaseClock(database);
  const afterMs = nowMs();
  const behindMs = Math.max(thereMs - afterMs, 0);
  const aheadMs = Math.max(beforeMs - thereMs, 0);
  const differenceMs = Math.max(behindMs, aheadMs);
  const finding = `the clock of this machine is ${(differenceMs / 1000).toFixed(1)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} that of the database`;
  if (differenceMs <= CLOCK_ADVICE_MS) return ok(name, 'the clocks of this machine and of the database agree');
  const fix = 'synchronize both clocks with NTP (chrony or systemd-timesyncd)';
  if (differenceMs <= CLOCK_DIFFERENCE_MAX_MS) return advice(name, `${finding}; at most one second is expected`, fix);
  return problem(name, `${finding}: times of events, leases and sessions are inconsistent`, fix);
}

/** A job whose last batch is older than this stands still: batches take milliseconds, and pauses follow the rate. */
const JOB_STILL_SECONDS = 300;

/** The oldest unfinished job must make progress; the others wait for it. Without the table the schema is not current, see checkSchema. */
export async function checkJobs(database: Database): Promise<Check[]> {
  if (!(await hasTable(database, 'jobs'))) return [];
  const [job] = await database.query<{ id: string; seconds: number }>({
    text: `
      select id, extract(epoch from now() - updated_at)::float8 as seconds from jobs
      where state in ('queued', 'running') order by created_at, id limit 1`,
  });
  if (job === undefined || job.seconds <= JOB_STILL_SECONDS) return [];
  return [
    advice(
      'jobs',
      `job ${job.id} has made no progress for ${Math.round(job.seconds / 60)} minutes`,
      `start Weir, or look for jobs_paused and job_failed in its log; weir job cancel ${job.id} ends it`,
    ),
  ];
}
