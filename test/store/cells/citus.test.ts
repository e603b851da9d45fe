/** Cells on Citus, where the server does not offer it. The others are in test/faults/citus.test.ts. */
import { expect, test } from 'vitest';
import { startCellApp } from '../../helpers/cells.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startCellApp(0));

test('a cell on Citus is refused where the database is not on Citus, and nothing is left of it', async () => {
  const { code, err } = await app.weir('cell', 'add', '--citus');
  expect(code).toBe(2);
  expect(err).toContain('The database of the settings has no Citus extension');
  expect((await app.json('cell', 'list')).items).toHaveLength(1);
});

test.each([
  ['neither', []],
  ['both', ['--citus', '--database-stdin']],
])('a cell is on Citus or on another server: %s', async (_, options) => {
  const { code, err } = await app.weir('cell', 'add', ...options);
  expect([code, err]).toEqual([2, expect.stringContaining('--database-file, --database-stdin or --citus')]);
});
