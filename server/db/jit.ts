/**
 * Turns JIT compilation off on Weir's connections. Its statements are short, but over daily partitions Postgres estimates them as
 * expensive and compiles each one on every run. The activity of 40 agents with 40 webhooks each over 37 partitions (Postgres 15, a busy
 * machine, 10 alternating runs each): 2.0 to 4.6 s with JIT, 0.25 to 0.72 s without.
 *
 * JIT is turned off in two ways, because each has gaps. Every connection requests it at startup (conninfo.ts). PgBouncer drops that
 * request if ignore_startup_parameters lists `options` (otherwise it rejects the connection), and the operator's own options replace
 * it. In addition it is set as the role's default in this database, which also applies to every new server connection of a pooler
 * (tested with PgBouncer 1.18 in transaction mode). A SET after connecting would reach only the server connection that the pooler has
 * assigned at that moment.
 */
import type { Query } from './pool.ts';

/** For libpq's `options`. */
export const jitOff = '-c jit=off';

/** Sets the role's default unless it has one. If the role may not alter itself, only the startup option applies. Call in a transaction. */
export async function turnOffJit(query: Query): Promise<void> {
  await query({
    text: `
      do $$
      begin
        if not exists (
          select from pg_db_role_setting s, unnest(s.setconfig) setting
          where s.setrole = (select oid from pg_roles where rolname = session_user) and setting like 'jit=%'
            and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
        ) then
          execute format('alter role %I in database %I set jit = off', session_user, current_database());
        end if;
      exception when insufficient_privilege then null;
      end
      $$`,
  });
}
