/** Which schemas a release serves, and how a migration ends early. */
import { readFileSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { advisoryLocks } from '../../server/store/advisory-locks.ts';
import { type Database, openDatabase } from '../../server/store/connect/pool.ts';
import { appliedVersions, compatibleFrom, migrate, migrationFiles } from '../../server/store/migrate.ts';
import { startTestApp } from '../helpers/app.ts';
import { nextMigration, nextMigrations, recordEarlierVersions } from '../helpers/next-release.ts';
import { emptyDatabase, type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { ofEach, ofTest } from '../helpers/shared.ts';
import { gate, until } from '../helpers/wait.ts';

const own = migrationFiles().at(-1)!.version;

/** This release is ready and accepts events on the database, also after a change. */
async function serveOn(fresh: FreshDatabase, change = async () => {}): Promise<void> {
  const app = await startTestApp({}, fresh);
  try {
    const webhook = await app.addWebhook({ secret: null });
    const accept = async () => expect((await fetch(webhook.url, { method: 'POST', body: '{}' })).status).toBe(202);
    expect((await fetch(`${app.url}/readyz`)).status).toBe(200);
    await accept();
    await change();
    await accept();
  } finally {
    await app.stop();
  }
}

describe('a schema of a newer release', () => {
  const fresh = ofEach(freshDatabase);
  const apply = (version: number, from: number | null) =>
    fresh.sql(
      'insert into schema_migrations (version, name, compatible_from) values ($1, $2, $3)',
      version,
      `${version}_later.sql`,
      from,
    );

  test('that is compatible with this one is served', async () => {
    await apply(own + 1, own - 1);
    await apply(own + 2, own);
    expect(await migrate(fresh.database)).toEqual([]);
    await serveOn(fresh);
  });

  test.each([
    ['says that it needs a newer release', own + 1],
    ['says nothing', null],
  ])('with one migration that %s is refused', async (_, from) => {
    await apply(own + 1, from);
    await apply(own + 2, own);
    await expect(migrate(fresh.database)).rejects.toThrow(
      `the database is at schema version ${own + 2}, newer than this release (${own}) and not compatible with it; run the newer release or restore the backup made before the upgrade`,
    );
  });
});

describe('a schema of an earlier commit', () => {
  const fresh = ofEach(freshDatabase);
  beforeEach(() => recordEarlierVersions(fresh.database));

  test('is adopted when it has the migrations that are in the first file', async () => {
    expect(await migrate(fresh.database)).toEqual([]);
    await serveOn(fresh, async () => {
      expect(await migrate(fresh.database, { files: await nextMigrations() })).toEqual([nextMigration]);
    });
  });

  test.each([
    ['lacks one of them', 'delete from schema_migrations where version >= 14', 13],
    [
      'is of before 1.0',
      'delete from schema_migrations where version <> 14; update schema_migrations set version = 58',
      58,
    ],
  ])('is refused with the commit to go through when it %s', async (_, text, version) => {
    await fresh.sql(text);
    await expect(migrate(fresh.database)).rejects.toThrow(
      `the database is at schema version ${version}, of a commit that this release does not upgrade; first run npx --no weir migrate of commit 59f02da6`,
    );
  });
});

test('every migration states from which version on releases can serve its schema', () => {
  const silent = migrationFiles().filter(({ version, name }) => {
    const text = readFileSync(new URL(`../../server/store/migrations/${name}`, import.meta.url), 'utf8');
    const from = compatibleFrom(text);
    return from === null ? !/^-- Compatible from: none$/m.test(text) : from >= version;
  });
  expect(silent).toEqual([]);
  expect(compatibleFrom('-- A title.\n--\n-- Compatible from: 42\n\nselect 1;\n')).toBe(42);
  expect(compatibleFrom('-- Compatible from: none\nselect 1;\n')).toBeNull();
});

test('a migration that waits for another is cancelled when Weir ends, and applies nothing', async () => {
  const fresh = await ofTest(emptyDatabase());
  const database = await ofTest(openDatabase(fresh.conninfo, { connectionsMax: 2, applicationName: 'test' }));
  const stopping = new AbortController();
  let outcome: Promise<unknown> | undefined;
  await fresh.database.transaction(async (query) => {
    await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.schema] });
    outcome = migrate(database, { stopping: stopping.signal }).catch((error: Error) => error.message);
    const waits = `select from pg_stat_activity where wait_event = 'advisory' and datname = current_database()`;
    await until(async () => (await database.query({ text: waits })).length === 1);
    stopping.abort();
    expect(await outcome).toMatch(/canceling statement due to user request/);
  });
  expect((await appliedVersions(fresh.database)).size).toBe(0);
});

test('a migration is cancelled also when the cancel arrives between two of its statements', async () => {
  const fresh = await ofTest(emptyDatabase());
  const pool = await ofTest(openDatabase(fresh.conninfo, { connectionsMax: 2, applicationName: 'test' }));
  const stopping = new AbortController();
  const early = gate();
  const database: Database = {
    ...pool,
    query: (statement) => pool.query(statement).finally(early.open),
    transaction: (work) =>
      pool.transaction((query) =>
        work(async (statement) => {
          if (statement.text.includes('pg_advisory_xact_lock')) {
            stopping.abort();
            await early.opened;
          }
          return query(statement);
        }),
      ),
  };
  await fresh.database.transaction(async (query) => {
    await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.schema] });
    await expect(migrate(database, { stopping: stopping.signal })).rejects.toThrow('canceling statement');
  });
});

test('a migration that waits for a backup lets others pass, names the backup, and is applied after it', async () => {
  const fresh = await ofTest(freshDatabase());
  const database = await ofTest(openDatabase(fresh.conninfo, { connectionsMax: 3, applicationName: 'test' }));
  const backup = await ofTest(openDatabase(fresh.conninfo, { connectionsMax: 1, applicationName: 'a backup' }));
  const files = await nextMigrations();
  const blocked: string[] = [];
  let outcome: Promise<string[]> | undefined;
  await backup.transaction(async (query) => {
    await query({ text: 'lock table webhooks, agents in access share mode' });
    outcome = migrate(database, {
      files,
      lockTries: { waitMs: 1_000, pauseMs: 100 },
      onBlocked: (waitsFor) => blocked.push(waitsFor),
    });
    outcome.catch(() => {});
    await until(() => blocked.length >= 2);
    expect(blocked.at(-1)).toMatch(/^the lock of (webhooks|agents), held by session \d+ \(a backup\) since \d{4}-/);
    // As ingest does. It would wait behind a migration that does not give up.
    await database.transaction((other) => other({ text: 'lock table webhooks, events in row exclusive mode' }));
    expect((await appliedVersions(database)).has(own + 1)).toBe(false);
  });
  expect(await outcome).toEqual([nextMigration]);
  expect((await appliedVersions(database)).has(own + 1)).toBe(true);
});
