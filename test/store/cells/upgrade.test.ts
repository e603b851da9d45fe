/** A cell whose schema is of an earlier release, and a change of cells that a process could not read at first. */
import { afterEach, expect, onTestFinished, test } from 'vitest';
import type { Log } from '../../../server/base/telemetry/log.ts';
import { loggedMigrations, runCells } from '../../../server/operate/primary/work.ts';
import type { Cell } from '../../../server/store/cells/cell.ts';
import { Cells, migrateCells } from '../../../server/store/cells/cells.ts';
import { copyTo, noteDifferentAgents } from '../../../server/store/cells/copy.ts';
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { type Migration, migrationFiles } from '../../../server/store/migrate.ts';
import { openCell } from '../../../server/store/open.ts';
import { derivedKeys, loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { startCellApp } from '../../helpers/cells.ts';
import {
  installNextRelease,
  nextMigration,
  nextMigrations,
  recordEarlierVersions,
  takeBack,
} from '../../helpers/next-release.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { spawnWeir } from '../../helpers/weir.ts';

const app = shared(() => startCellApp(1));
afterEach(async () => {
  for (const { database } of [app, app.cells[0]!]) await takeBack(database);
});

test('agents are copied again only to a cell that has not all of them', async () => {
  const [{ database: home }, cell] = app.primary.all() as [Cell, Cell];
  const agent = await app.agentOf([await app.webhookIn(1)]);
  const inCell = (text: string) => cell.database.query({ text, values: [agent.id] });
  const noted = async () => (await noteDifferentAgents(cell, home)) && copyTo(cell, home).then(() => true);
  await copyTo(cell, home);
  expect(await noted()).toBe(false);
  await inCell('update agents set paused_at = now() where id = $1');
  expect([await noted(), await noted()]).toEqual([true, false]);
  await inCell('delete from subscriptions where agent_id = $1');
  expect([await noted(), await noted()]).toEqual([true, false]);
});

test('what a primary of an earlier release copied without a column is copied again by the next primary that starts', async () => {
  const agent = await app.agentOf([await app.webhookIn(1)]);
  const pausedIn = async () => {
    const text = 'select paused_at is not null as paused from agents where id = $1';
    return (await app.cells[0]!.sql<{ paused: boolean }>(text, agent.id))[0]?.paused;
  };
  await app.weir('agent', 'pause', agent.id);
  await until(pausedIn);
  await app.cells[0]!.sql('update agents set paused_at = null');
  const { cells } = await readCells();
  const stop = runCells(cells, collect().log, () => 30);
  await until(pausedIn);
  await stop();
});

test('weir migrate migrates the cells', async () => {
  const { entry, remove } = await installNextRelease();
  onTestFinished(remove);
  const cell = { number: 1, name: app.cells[0]!.name, away: null };
  const run = async (...more: string[]) => {
    const { DATA_DIR, SECRETS_KEY } = app.settings;
    const environment = { DATABASE_URL: app.conninfo, DATA_DIR, SECRETS_KEY: SECRETS_KEY! };
    const command = spawnWeir(environment, { command: ['migrate', ...more], entry });
    expect([await command.ended, command.stderr()]).toEqual([0, '']);
    return command.lines.join('\n');
  };
  const applied = [nextMigration];
  expect(JSON.parse(await run('--json'))).toEqual({ applied, cells: [{ ...cell, applied }] });
  expect(await run()).toContain(`Cell 1 (${cell.name}): up to date.`);
});

/**
 * The cells as a primary reads them.
 * @param over the database of home to use
 * @param files migrations of its release
 */
async function readCells(over = (home: Database) => home, files?: Migration[]) {
  const home = openDatabase(app.conninfo, { connectionsMax: 1, applicationName: 'weir-primary', onError: () => {} });
  const keys = derivedKeys(loadSecretsKeys(app.settings), 'cells');
  const cells = new Cells({ home: over(home), conninfo: app.conninfo, keys, open: openCell, files });
  onTestFinished(() => cells.close().then(() => home.close()));
  await cells.load();
  const cell = cells.numbered(1);
  await cell.check();
  return { cells, cell };
}

/** The cells as a primary of the next release reads them. */
const readByNext = async () => readCells((home) => home, await nextMigrations());

const never = new AbortController().signal;

/** A log, and what was logged. */
function collect(): { log: Log; logged: unknown[] } {
  const logged: unknown[] = [];
  return { log: ((...line: unknown[]) => logged.push(line)) as unknown as Log, logged };
}

test('a cell of the commit before the one schema is used as it is', async () => {
  const { database } = app.cells[0]!;
  await recordEarlierVersions(database);
  const { cell } = await readCells();
  expect([cell.outdated, cell.away, await cell.migrate()]).toEqual([false, null, []]);
});

test('a cell of a commit that this release does not upgrade is not used, and its reason says what to do', async () => {
  const { database } = app.cells[0]!;
  const change = (from: number, to: number) =>
    database.query({ text: 'update schema_migrations set version = $2 where version = $1', values: [from, to] });
  const { version } = migrationFiles()[0]!;
  await change(version, 58);
  onTestFinished(() => change(58, version).then(() => {}));
  const { cells, cell } = await readCells();
  const reason = /^the database is at schema version 58, of a commit that this release does not upgrade; first run /;
  expect(cell.away).toMatch(reason);
  const { checks } = JSON.parse((await app.weir('doctor', '--json')).out);
  const check = checks.find(({ finding }: { finding: string }) => finding.includes('is at schema version 58'));
  expect(check).toMatchObject({ state: 'problem', fix: 'npx --no weir migrate' });
  const { log, logged } = collect();
  await migrateCells(cells, loggedMigrations(log, true, never));
  expect(logged).toEqual([]);
  await change(58, version);
  await cell.check();
  expect(cell.away).toBeNull();
});

test('a cell of an earlier release is not used before it is migrated', async () => {
  const { cells, cell } = await readByNext();
  expect([cell.outdated, cell.away]).toEqual([
    true,
    'its schema is of an earlier release, and is about to be migrated',
  ]);
  await expect(cell.database.query({ text: 'select' })).rejects.toThrow('of an earlier release');

  const { log, logged } = collect();
  await migrateCells(cells, loggedMigrations(log, true, never));
  expect(logged).toEqual([['migrated', { migration: nextMigration, cell: 1 }]]);
  expect([cell.outdated, cell.away]).toEqual([false, null]);
  await cell.database.query({ text: 'select next from webhooks' });
});

test('a migration of a cell that waits for a lock is logged with its holder, and ended by the end of Weir', async () => {
  const { cells, cell } = await readByNext();
  const { log, logged } = collect();
  const stopping = new AbortController();
  await app.cells[0]!.database.transaction(async (query) => {
    await query({ text: 'lock table webhooks in access exclusive mode' });
    const migrating = migrateCells(cells, loggedMigrations(log, true, stopping.signal));
    await until(() => logged.length > 0);
    stopping.abort();
    await migrating;
    // A start does not wait for locks.
    await migrateCells(cells, loggedMigrations(log, false, never));
  });
  const waits_for = expect.stringMatching(/^the lock of webhooks, held by session \d+/);
  const line = ['migration_blocked', { waits_for, cell: 1 }];
  expect(logged).toEqual([line, line]);
  expect(cell.outdated).toBe(true);
  await migrateCells(cells, loggedMigrations(log, true, never));
  expect(cell.outdated).toBe(false);
});

test('a change that could not be read is read again, and the cells known before are used until then', async () => {
  let answers = true;
  const { cells, cell } = await readCells((home) => ({
    ...home,
    query: (statement) =>
      answers ? home.query(statement) : Promise.reject(new DatabaseUnavailable(new Error('cut off'))),
  }));
  cells.watch();
  let reads = 0;
  cells.onRead(() => reads++);

  answers = false;
  expect((await app.weir('cell', 'update', '1', '--name', 'renamed')).err).toBe('');
  await expect(cells.load()).rejects.toThrow(DatabaseUnavailable);
  expect([cells.known, cells.find(1), cell.name === 'renamed', reads]).toEqual([true, cell, false, 0]);

  answers = true;
  await until(() => cell.name === 'renamed');
  expect(reads).toBe(1);
});
