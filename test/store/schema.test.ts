/** The objects of the schema, and the adoption of a database that the commit before 0001_schema.sql made. */
import { createHash } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { createCredential } from '../../server/model/credential.ts';
import { verifyAudit } from '../../server/store/audit/verify.ts';
import type { Database } from '../../server/store/connect/pool.ts';
import { prepareServingRole } from '../../server/store/embedded/serving-role.ts';
import { uuidAt, uuidv7Milliseconds } from '../../server/store/ids.ts';
import {
  appliedVersions,
  migrate,
  migrationFiles,
  pendingMigrations,
  versionProblem,
} from '../../server/store/migrate.ts';
import { createPartitions } from '../../server/store/retention/partitions.ts';
import { signIn, TestAgent } from '../helpers/agents.ts';
import { startTestApp } from '../helpers/app.ts';
import { earlierDatabase } from '../helpers/earlier.ts';
import { emptyDatabase, type FreshDatabase } from '../helpers/postgres.ts';

/** Hash of what `objectsOf` returns for a database that migrations 39 to 58 of commit b8d87c17 made. */
const EARLIER_OBJECTS = '31ff19fafea50df4d08ff33119a7d3de366f5dbad2952ca28a334a48f252aba7';

async function of(made: Promise<FreshDatabase>): Promise<FreshDatabase> {
  const fresh = await made;
  onTestFinished(() => fresh.drop());
  return fresh;
}

/** Columns, constraints, indexes, triggers, functions, partitions and options of all objects, without their comments. */
async function objectsOf({ query }: Database): Promise<string> {
  const rows = await query<{ object: string }>({
    text: `
      with ours as (select * from pg_class where relnamespace = 'public'::regnamespace),
      objects as (
        select format('column %s.%s %s %s %s %s %s %s', relname, attname, format_type(atttypid, atttypmod), attnotnull, attstorage,
          attidentity, attgenerated, pg_get_expr(adbin, adrelid)) as object
        from ours join pg_attribute on attrelid = ours.oid and attnum > 0 and not attisdropped
        left join pg_attrdef on adrelid = ours.oid and adnum = attnum where relkind in ('r', 'p')
        union all
        select format('constraint %s.%s %s', coalesce(relname, typname), conname, replace(pg_get_constraintdef(c.oid), ' NOT VALID', ''))
        from pg_constraint c left join ours on ours.oid = conrelid left join pg_type t on t.oid = contypid
        where connamespace = 'public'::regnamespace
        union all
        select format('index %s', pg_get_indexdef(oid)) from ours where relkind in ('i', 'I')
        union all
        select format('trigger %s', pg_get_triggerdef(t.oid)) from pg_trigger t join ours on ours.oid = tgrelid where not tgisinternal
        union all
        select format('function %s', pg_get_functiondef(oid)) from pg_proc where pronamespace = 'public'::regnamespace
        union all
        select format('table %s %s %s %s %s', relname, relkind, reloptions, pg_get_partkeydef(oid), pg_get_expr(relpartbound, oid)) from ours
      )
      select object from objects order by object collate "C"`,
  });
  return rows.map(({ object }) => object).join('\n');
}

test('every table, column, index, function, trigger and domain has a comment', async () => {
  const fresh = await of(emptyDatabase());
  await migrate(fresh.database);
  const rows = await fresh.database.query<{ object: string }>({
    text: `
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
      where not exists (select from pg_description d where d.classoid = class and d.objoid = oid and d.objsubid = part)`,
  });
  expect(rows.map(({ object }) => object)).toEqual([]);
});

test('the first file makes the objects that the migrations before it made', async () => {
  const { database } = await of(earlierDatabase(58));
  const objects = await objectsOf(database);
  expect(createHash('sha256').update(objects).digest('hex')).toBe(EARLIER_OBJECTS);
});

const webhook = '9ee7bda0-3c68-48bc-bb37-6d2086c887bc';
const deduped = uuidAt(Date.now());
const agent = { id: 'c7bc77c0-d58e-49e6-982a-0b0e68c216b8', credential: createCredential('wa') };
const sha256 = (text: string) => createHash('sha256').update(text).digest();

/** Rows that the build of the commit before may have written. */
async function fill({ query }: Database): Promise<void> {
  await query({
    text: `insert into webhooks (id, name, dedupe_header) values ($1, 'shop', 'x-id')`,
    values: [webhook],
  });
  await query({
    text: `insert into agents (id, name, lookup_id, secret_hash) values ($1, 'shipping', $2, $3)`,
    values: [agent.id, agent.credential.lookupId, agent.credential.secretHash],
  });
  await query({
    text: 'insert into subscriptions (webhook_id, agent_id) values ($1, $2)',
    values: [webhook, agent.id],
  });
  await query({
    text: `
      insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes)
      values ($1, $2, to_timestamp($3::float8 / 1000), '203.0.113.9', 'x-id: same', '{"order":1}', 11)`,
    values: [deduped, webhook, uuidv7Milliseconds(deduped)],
  });
  await query({
    text: `insert into dedupe_keys (webhook_id, key, event_id, expires_at) values ($1, $2, $3, now() + interval '1 day')`,
    values: [webhook, sha256('same'), deduped],
  });
}

const tables = ['webhooks', 'agents', 'subscriptions', 'events', 'dedupe_keys', 'deliveries'];

async function rowsOf({ query }: Database): Promise<object[][]> {
  const read = (table: string) =>
    query<{ row: object }>({ text: `select to_jsonb(t) as row from ${table} t order by 1` });
  return Promise.all(tables.map(async (table) => (await read(table)).map(({ row }) => row)));
}

test.each([56, 57, 58])(
  'a database of version %i of the commits before is adopted with its rows, and serves',
  async (version) => {
    const fresh = await of(earlierDatabase(version));
    const { database } = fresh;
    await createPartitions(database, Date.now());
    await fill(database);
    const [rows, made] = [
      await rowsOf(database),
      await database.query({ text: 'select min(applied_at)::text as at from schema_migrations' }),
    ];
    expect(await migrate(database)).toEqual(migrationFiles().map(({ name }) => name));
    expect(await migrate(database)).toEqual([]);
    expect([...(await appliedVersions(database)).keys()]).toEqual(migrationFiles().map((file) => file.version));
    // Later migrations add columns.
    expect(await rowsOf(database)).toMatchObject(rows);
    expect(
      await database.query({ text: 'select applied_at::text as at from schema_migrations where version = 1' }),
    ).toEqual(made);
    expect(await verifyAudit(database, null)).toMatchObject({ intact: true });

    await prepareServingRole(database);
    const app = await startTestApp({}, fresh);
    try {
      const send = (body: string, headers = {}) => fetch(`${app.url}/in/${webhook}`, { method: 'POST', body, headers });
      expect((await send('{"order":2}')).status).toBe(202);
      const repeated = await send('{}', { 'x-id': 'same' });
      expect([repeated.status, await repeated.json()]).toMatchObject([200, { id: deduped, duplicate: true }]);
      const credential = agent.credential.text;
      const consumer = new TestAgent(app.url, { id: agent.id, credential }, await signIn(app, credential));
      const deliveries = await consumer.claim();
      expect(deliveries.map(({ event }) => event.body)).toEqual(['{"order":1}', '{"order":2}']);
      expect((await consumer.ack(deliveries.map(({ receipt }) => receipt))).done).toHaveLength(2);
      expect((await fetch(`${app.url}/readyz`)).status).toBe(200);
    } finally {
      await app.stop();
    }
  },
);

test('snoozes of conditions and outages become issues', async () => {
  const fresh = await of(earlierDatabase(58));
  const { query } = fresh.database;
  await createPartitions(fresh.database, Date.now());
  await fill(fresh.database);
  await query({
    text: `
      insert into condition_snoozes (condition_id, until, state, count, snoozed_by)
      values ($1, now() + interval '1 hour', '', 12, 'ada'), ('rate_limits', now() + interval '1 day', null, null, 'ada'),
        ('archive', now() - interval '1 second', null, null, 'ada')`,
    values: [`dead_letters:${agent.id}`],
  });
  await query({
    text: `
      insert into outages (id, machine, began_at, ended_at, refused, spooled)
      select gen_random_uuid(), 'one', now() - hours * interval '1 hour', now() - hours * interval '59 minutes', hours, 7
      from unnest('{1,2400}'::int[]) hours`,
  });
  await migrate(fresh.database);
  const rows = await query({
    text: `select kind, subject_id, facts ->> 'name' as name, count, resolved_at is null as holds, snoozed_until > now() as snoozed
           from issues order by kind`,
  });
  expect(rows).toEqual([
    { kind: 'database', subject_id: 'one', name: 'one', count: 8, holds: false, snoozed: null },
    { kind: 'dead_letters', subject_id: agent.id, name: 'shipping', count: 12, holds: true, snoozed: true },
    { kind: 'rate_limits', subject_id: '', name: '', count: 1, holds: true, snoozed: true },
  ]);
});

test('a database of each adopted version has the same objects afterwards', async () => {
  const current = await of(earlierDatabase(58));
  await migrate(current.database);
  const objects = await objectsOf(current.database);
  for (const version of [56, 57]) {
    const earlier = await of(earlierDatabase(version));
    await migrate(earlier.database);
    expect(await objectsOf(earlier.database)).toBe(objects);
  }
});

test.each([55, 39])('a database of version %i is refused with the commit to go through', async (version) => {
  const { database } = await of(earlierDatabase(version));
  await expect(migrate(database)).rejects.toThrow(
    `the database is at schema version ${version} of before 1.0, which this release does not upgrade; first run npx --no weir migrate of commit b8d87c17`,
  );
});

test('a release of the commit before refuses to start beside an adopted database, and its processes report the missing migrations', async () => {
  const { database } = await of(earlierDatabase(58));
  await migrate(database);
  const files = Array.from({ length: 20 }, (_, index) => ({ version: 39 + index, name: `${39 + index}_earlier.sql` }));
  expect(await pendingMigrations(database, files)).toEqual(files.map(({ name }) => name));
  // Its own function refuses for the reason that the newest version, 1, is below its first.
  expect(Math.max(...(await appliedVersions(database)).keys())).toBeLessThan(files[0]!.version);
  expect(versionProblem(await appliedVersions(database))).toBeNull();
});
