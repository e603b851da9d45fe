/** The role of the serving processes with the embedded server, whose owner is a superuser and may read files and run programs. */
import type { Queries } from '../connect/pool.ts';

export const SERVING_ROLE = 'weir_serving';

/**
 * Creates the role, with the rights that it lacks. Call after the migrations, as the owner. It owns the tables whose partitions processes may
 * create and to which the first subscription adds a trigger, and sees when all transactions began (see cells/move.ts).
 */
export async function prepareServingRole({ query }: Queries): Promise<void> {
  await query({
    text: `
      do $$
      declare
        own regclass;
      begin
        if not exists (select from pg_roles where rolname = '${SERVING_ROLE}') then
          create role ${SERVING_ROLE} login;
          grant pg_read_all_stats to ${SERVING_ROLE};
        end if;
        if not has_schema_privilege('${SERVING_ROLE}', 'public', 'create') then
          grant usage, create on schema public to ${SERVING_ROLE};
          alter default privileges in schema public grant select, insert, update, delete on tables to ${SERVING_ROLE};
          alter default privileges in schema public grant usage on sequences to ${SERVING_ROLE};
        end if;
        for own in
          select oid from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
            and not has_table_privilege('${SERVING_ROLE}', oid, 'select, insert, update, delete')
        loop
          execute format('grant select, insert, update, delete on %s to ${SERVING_ROLE}', own);
        end loop;
        if not has_sequence_privilege('${SERVING_ROLE}', 'order_numbers', 'usage') then
          grant usage on sequence order_numbers to ${SERVING_ROLE};
        end if;
        for own in
          select oid from pg_class where oid in ('events'::regclass, 'deliveries_live'::regclass, 'deliveries_finished'::regclass)
            and relowner <> '${SERVING_ROLE}'::regrole
        loop
          execute format('alter table %s owner to ${SERVING_ROLE}', own);
        end loop;
      end
      $$`,
  });
}
