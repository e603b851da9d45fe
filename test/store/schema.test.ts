/** The objects of the schema. */
import { expect, test } from 'vitest';
import { migrate } from '../../server/store/migrate.ts';
import { emptyDatabase } from '../helpers/postgres.ts';
import { ofTest } from '../helpers/shared.ts';

test('every table, column, index, function, trigger and domain has a comment', async () => {
  const fresh = await ofTest(emptyDatabase());
  await migrate(fresh.database);
  const rows = await fresh.sql<{ object: string }>(`
      with ours as (select oid, relname from pg_class where relnamespace = 'public'::regnamespace),
      objects as (
        select 'pg_class'::regclass as class, oid, 0 as part, relname::text as object from ours
        where not exists (select from pg_constraint c where c.conindid = ours.oid)
        union all
        select 'pg_class'::regclass, ours.oid, attnum, ours.relname || '.' || attname
        from ours join pg_attribute on attrelid = ours.oid and attnum > 0 and not attisdropped
        join pg_class on pg_class.oid = ours.oid and relkind in ('r', 'p')
        union all
        select 'pg_proc'::regclass, oid, 0, proname from pg_proc where pronamespace = 'public'::regnamespace
        union all
        select 'pg_trigger'::regclass, t.oid, 0, tgname from pg_trigger t join ours on ours.oid = tgrelid where not tgisinternal
        union all
        select 'pg_type'::regclass, oid, 0, typname from pg_type where typnamespace = 'public'::regnamespace and typtype in ('d', 'e')
      )
      select object from objects
      where not exists (select from pg_description d where d.classoid = class and d.objoid = oid and d.objsubid = part)`);
  expect(rows.map(({ object }) => object)).toEqual([]);
});
