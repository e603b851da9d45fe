/**
 * The schema, compared with a checked-in dump, and the upgrade of a database that earlier builds made.
 *
 * schema.sql is pg_dump's output for a new database. After a new migration, regenerate it and review the difference:
 *     npx vitest run --config test/vitest.config.ts test/store/schema.test.ts --update
 *
 * version-39.sql is a database that migrations 1 to 39 made before one file replaced them, the schema of commit a9e3153. Most rows were
 * written by the build of version 25 under the key `someKey` and migrated; rows of the later tables and columns were inserted. It is
 * never regenerated.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { verifyAudit } from '../../server/store/audit/verify.ts';
import { prepareServingRole } from '../../server/store/embedded/serving-role.ts';
import { migrate, migrationFiles } from '../../server/store/migrate.ts';
import { request, signIn, TestAgent } from '../helpers/agents.ts';
import { startTestApp } from '../helpers/app.ts';
import { emptyDatabase, type FreshDatabase } from '../helpers/postgres.ts';
import { signedRequest } from '../helpers/requests.ts';
import { someKey } from '../helpers/settings.ts';

/** Major version of pg_dump; it refuses a server newer than itself, and the embedded one is 15. 0: not installed. */
const pgDumpMajor = Number(
  /\d+/.exec(spawnSync('pg_dump', ['--version'], { encoding: 'utf8' }).stdout ?? '')?.[0] ?? 0,
);

const earlier = {
  dump: readFileSync(new URL('version-39.sql', import.meta.url), 'utf8'),
  webhook: '/in/9ee7bda0-3c68-48bc-bb37-6d2086c887bc',
  secret: 'a secret between friends',
  agent: {
    id: 'c7bc77c0-d58e-49e6-982a-0b0e68c216b8',
    credential: 'wa_rnCSG31nh3jA_bOSFJMeE3soKz6PMAceZ3ExoJFihzNBKPJ0Lleo1La0jj024g',
  },
  token: 'wu_rPnkOS4NHoDx_Im3rAPEVgucr7shRoZP5fsPzNDRAM2faht3ahvtNXMOLAKd6w',
  /** Stored under the dedupe key `same`. */
  deduped: '01a20294-70a5-7a69-8c1d-e052f6c99d73',
  bodies: ['{"order":2}\n', '{"deduped":true}'],
};

let fresh: FreshDatabase;
beforeEach(async () => {
  fresh = await emptyDatabase();
});
afterEach(() => fresh.drop());

/** pg_dump's output without partitions, comments, and lines that depend on its version. */
function dumpSchema({ conninfo }: FreshDatabase): string {
  const options = ['--schema-only', '--no-owner', '--no-comments', '--exclude-table=(events|deliveries)_2*'];
  const dump = execFileSync('pg_dump', [...options, conninfo], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines = dump.split('\n').filter((line) => !/^(--|SET |SELECT pg_catalog\.set_config|\\)/.test(line));
  return `${lines
    .join('\n')
    .trim()
    .replace(/\n{2,}/g, '\n\n')}\n`;
}

/** The rows of every table that the dump fills, except the list of applied migrations. */
async function rowsOf({ database }: FreshDatabase): Promise<Record<string, object[]>> {
  const filled = [...earlier.dump.matchAll(/^INSERT INTO public\.(\w+)/gm)].map(([, name]) => name!);
  // A migration may move rows of a day to another partition.
  const tables = new Set(filled.map((name) => name.replace(/_\d+$/, '')));
  tables.delete('schema_migrations');
  const rows: Record<string, object[]> = {};
  for (const table of tables) {
    const found = await database.query<{ row: object }>({
      text: `select to_jsonb(t) as row from ${table} t order by to_jsonb(t) ->> 'id', to_jsonb(t) ->> 'number'`,
    });
    rows[table] = found.map(({ row }) => row);
  }
  return rows;
}

describe.runIf(pgDumpMajor >= 15)('the dump', () => {
  test('of a new database equals the checked-in file', async () => {
    await migrate(fresh.database);
    await expect(dumpSchema(fresh)).toMatchFileSnapshot('schema.sql');
  });

  test('of a database of earlier builds is the same after the upgrade', async () => {
    await migrate(fresh.database);
    const made = dumpSchema(fresh);
    const upgraded = await emptyDatabase();
    try {
      await upgraded.database.query({ text: earlier.dump });
      await migrate(upgraded.database);
      // Its first subscription has enabled the fan-out.
      await upgraded.database.query({ text: 'drop trigger events_fan_out on events' });
      expect(dumpSchema(upgraded)).toBe(made);
    } finally {
      await upgraded.drop();
    }
  });
});

test('every table, column, index, function, trigger and domain has a comment', async () => {
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

describe('a database of version 39', () => {
  beforeEach(() => fresh.database.query({ text: earlier.dump }));

  test('is migrated by the later files only, and its contents are served', async () => {
    const later = migrationFiles().filter(({ version }) => version > 39);
    const before = await rowsOf(fresh);
    expect(await migrate(fresh.database)).toEqual(later.map(({ name }) => name));
    await prepareServingRole(fresh.database);
    // Later migrations add columns.
    expect(await rowsOf(fresh)).toMatchObject(before);
    expect(await verifyAudit(fresh.database, null)).toMatchObject({ intact: true, entries: 5 });

    const app = await startTestApp({ SECRETS_KEY: someKey }, fresh);
    try {
      const send = (body: string, headers = {}) =>
        fetch(app.url + earlier.webhook, signedRequest({ secret: earlier.secret, body, headers }));
      expect((await send('{"order":3}')).status).toBe(202);
      const repeated = await send('{}', { 'x-id': 'same' });
      expect(repeated.status).toBe(200);
      expect(await repeated.json()).toMatchObject({ id: earlier.deduped, duplicate: true });

      const agent = new TestAgent(app.url, earlier.agent, await signIn(app, earlier.agent.credential));
      const deliveries = await agent.claim();
      expect(deliveries.map(({ event }) => event.body)).toEqual([...earlier.bodies, '{"order":3}']);
      expect((await agent.ack(deliveries.map(({ receipt }) => receipt))).done).toHaveLength(3);

      const list = await request(`${app.url}/api/v1/events`, earlier.token);
      expect(list.body.items).toHaveLength(4);
      const refused = await request(`${app.url}/api/v1/rejections`, earlier.token);
      expect(refused.body.items).toMatchObject([{ reason: 'digest_differs' }]);
    } finally {
      await app.stop();
    }
  });

  test.each([38, 25, 22])('of version %i is refused with the commit to go through', async (version) => {
    await fresh.database.query({ text: 'delete from schema_migrations where version > $1', values: [version] });
    await expect(migrate(fresh.database)).rejects.toThrow(
      `the database is at schema version ${version}, and this release upgrades from version 39; first run npx --no weir migrate of commit a9e3153`,
    );
  });
});
