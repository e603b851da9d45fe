/**
 * JIT compilation is off on the connections of Weir. Its statements are short, but over daily partitions Postgres estimates them as
 * costly and compiles each one again. The activity of 40 agents with 40 webhooks each over 37 partitions (Postgres 15, a busy machine,
 * 10 runs each in turns): 2.0 to 4.6 s with JIT, 0.25 to 0.72 s without.
 *
 * Two ways, since each has gaps. Every connection asks for it at its start (conninfo.ts); PgBouncer drops that where
 * ignore_startup_parameters names `options` (else it refuses the connection), and the operator's own options replace it. And the
 * role gets it as its default in this database, which holds for every new server connection of a pooler too (tried with PgBouncer
 * 1.18 in transaction mode). A SET after connecting would reach only the server connection that a pooler lends at that moment.
 */
import type { Database } from './pool.ts';

/** For libpq's `options`. */
export const jitOff = '-c jit=off';

/** Sets the default of the role, unless it has one. Where the role may not alter itself, connections ask alone. In a transaction. */
export async function turnOffJit(query: Database['query']): Promise<void> {
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
