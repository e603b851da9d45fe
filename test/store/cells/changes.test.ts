/** A change of cells that a process could not read at first. */
import { expect, onTestFinished, test } from 'vitest';
import { Cells } from '../../../server/store/cells/cells.ts';
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { openCell } from '../../../server/store/open.ts';
import { derivedKeys, loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(() => startCellApp(1));

test('a change that could not be read is read again, and the cells known before are used until then', async () => {
  const home = openDatabase(app.conninfo, { connectionsMax: 1, applicationName: 'weir-test', onError: () => {} });
  let answers = true;
  const query: Database['query'] = (statement) =>
    answers ? home.query(statement) : Promise.reject(new DatabaseUnavailable(new Error('cut off')));
  const keys = derivedKeys(loadSecretsKeys(app.settings), 'cells');
  const cells = new Cells({ home: { ...home, query }, conninfo: app.conninfo, keys, open: openCell });
  onTestFinished(() => cells.close().then(() => home.close()));
  await cells.load();
  cells.watch();
  const cell = cells.numbered(1);
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
