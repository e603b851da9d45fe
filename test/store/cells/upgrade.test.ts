/** A cell whose schema is of an earlier release, and a change of cells that a process could not read at first. */
import { expect, onTestFinished, test } from 'vitest';
import type { Log } from '../../../server/base/telemetry/log.ts';
import { loggedMigrations, runCells } from '../../../server/operate/primary/work.ts';
import { Cells, migrateCells } from '../../../server/store/cells/cells.ts';
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { openCell } from '../../../server/store/open.ts';
import { derivedKeys, loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

/** A migration that can be taken back. */
const MIGRATION = '0002_due_deliveries.sql';
const INDEXES = ['deliveries_due', 'replay_targets_filtered', 'subscriptions_filtered'];

const app = shared(() => startCellApp(1));

async function indexes(): Promise<string[]> {
  const text = 'select indexname as name from pg_indexes where indexname = any ($1) order by 1';
  const rows = await app.cells[0]!.database.query<{ name: string }>({ text, values: [`{${INDEXES.join(',')}}`] });
  return rows.map(({ name }) => name);
}

/** Takes MIGRATION back. */
async function makeEarlier(): Promise<void> {
  const { database } = app.cells[0]!;
  expect(await indexes()).toEqual(INDEXES);
  for (const index of INDEXES) await database.query({ text: `drop index ${index}` });
  await database.query({ text: 'create index deliveries_live_of_agent on deliveries_live (agent_id)' });
  await database.query({ text: 'delete from schema_migrations where name = $1', values: [MIGRATION] });
}

test('what a primary of an earlier release copied without a column is copied again by the next primary that starts', async () => {
  const agent = await app.agentOf([await app.webhookIn(1)]);
  const pausedIn = async () => {
    const text = 'select paused_at is not null as paused from agents where id = $1';
    return (await app.cells[0]!.database.query<{ paused: boolean }>({ text, values: [agent.id] }))[0]?.paused;
  };
  await app.weir('agent', 'pause', agent.id);
  await until(pausedIn);
  await app.cells[0]!.database.query({ text: 'update agents set paused_at = null' });
  const { cells } = await readCells();
  const stop = runCells(cells, collect().log);
  await until(pausedIn);
  await stop();
});

test('weir migrate migrates the cells', async () => {
  await makeEarlier();
  const cell = { number: 1, name: app.cells[0]!.name, away: null };
  expect(await app.json('migrate')).toEqual({ applied: [], cells: [{ ...cell, applied: [MIGRATION] }] });
  expect((await app.weir('migrate')).out).toContain(`Cell 1 (${cell.name}): up to date.`);
});

/**
 * The cells as a primary reads them.
 * @param over the database of home to use
 */
async function readCells(over = (home: Database) => home) {
  const home = openDatabase(app.conninfo, { connectionsMax: 1, applicationName: 'weir-primary', onError: () => {} });
  const keys = derivedKeys(loadSecretsKeys(app.settings), 'cells');
  const cells = new Cells({ home: over(home), conninfo: app.conninfo, keys, open: openCell });
  onTestFinished(() => cells.close().then(() => home.close()));
  await cells.load();
  const cell = cells.numbered(1);
  await cell.check();
  return { cells, cell };
}

const never = new AbortController().signal;

/** A log, and what was logged. */
function collect(): { log: Log; logged: unknown[] } {
  const logged: unknown[] = [];
  return { log: ((...line: unknown[]) => logged.push(line)) as unknown as Log, logged };
}

test('a cell of an earlier release is not used before it is migrated', async () => {
  await makeEarlier();
  const { cells, cell } = await readCells();
  expect([cell.outdated, cell.away]).toEqual([
    true,
    'its schema is of an earlier release, and is about to be migrated',
  ]);
  await expect(cell.database.query({ text: 'select' })).rejects.toThrow('of an earlier release');

  const { log, logged } = collect();
  await migrateCells(cells, loggedMigrations(log, true, never));
  expect(logged).toEqual([['migrated', { migration: MIGRATION, cell: 1 }]]);
  expect([cell.outdated, cell.away, await indexes()]).toEqual([false, null, INDEXES]);
});

test('a migration of a cell that waits for a lock is logged with its holder, and ended by the end of Weir', async () => {
  await makeEarlier();
  const { cells, cell } = await readCells();
  const { log, logged } = collect();
  const stopping = new AbortController();
  await app.cells[0]!.database.transaction(async (query) => {
    await query({ text: 'lock table subscriptions in access exclusive mode' });
    const migrating = migrateCells(cells, loggedMigrations(log, true, stopping.signal));
    await until(() => logged.length > 0);
    stopping.abort();
    await migrating;
    // A start does not wait at all.
    await migrateCells(cells, loggedMigrations(log, false, never));
  });
  const waits_for = expect.stringMatching(/^the lock of subscriptions, held by session \d+/);
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
  await expect(cells.changed()).rejects.toThrow(DatabaseUnavailable);
  expect([cells.known, cells.find(1), cell.name === 'renamed', reads]).toEqual([true, cell, false, 0]);

  answers = true;
  await until(() => cell.name === 'renamed');
  expect(reads).toBe(1);
});
