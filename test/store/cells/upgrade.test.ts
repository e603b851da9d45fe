/** A cell whose schema is of an earlier release. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Log } from '../../../server/base/telemetry/log.ts';
import { migrateCells } from '../../../server/operate/primary/cells.ts';
import { Cells } from '../../../server/store/cells/cells.ts';
import { migrationFiles } from '../../../server/store/migrate.ts';
import { openCell } from '../../../server/store/open.ts';
import { openDatabase } from '../../../server/store/pool.ts';
import { derivedKeys, loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { type CellApp, startCellApp } from '../../helpers/cells.ts';

const NEWEST = 55;
const INDEXES = ['webhooks_newest', 'agents_newest', 'history_refused'];

let app: CellApp;
beforeAll(async () => {
  app = await startCellApp(1);
});
afterAll(() => app.stop());

test('a cell of an earlier release is not used before it is migrated', async () => {
  const { database } = app.cells[0]!;
  const indexes = async () =>
    (
      await database.query<{ name: string }>({
        text: 'select indexname as name from pg_indexes where indexname = any ($1) order by 1',
        values: [`{${INDEXES.join(',')}}`],
      })
    ).map(({ name }) => name);
  expect(await indexes()).toEqual(INDEXES.toSorted());
  for (const index of INDEXES) await database.query({ text: `drop index ${index}` });
  await database.query({ text: 'delete from schema_migrations where version = $1', values: [NEWEST] });

  const home = openDatabase(app.conninfo, { connectionsMax: 1, applicationName: 'weir-primary', onError: () => {} });
  const keys = derivedKeys(loadSecretsKeys(app.settings), 'cells');
  const cells = new Cells({ home, conninfo: app.conninfo, keys, open: openCell });
  onTestFinished(() => cells.close().then(() => home.close()));
  await cells.load();
  const cell = cells.numbered(1);
  await cell.ask();
  expect([cell.outdated, cell.away]).toEqual([
    true,
    'its schema is of an earlier release, and is about to be migrated',
  ]);
  await expect(cell.database.query({ text: 'select' })).rejects.toThrow('of an earlier release');

  const logged: unknown[] = [];
  await migrateCells(cells, ((...line: unknown[]) => logged.push(line)) as unknown as Log);
  expect(logged).toEqual([['migrated', { migration: migrationFiles().at(-1)!.name, cell: 1 }]]);
  expect([cell.outdated, cell.away, await indexes()]).toEqual([false, null, INDEXES.toSorted()]);
});
