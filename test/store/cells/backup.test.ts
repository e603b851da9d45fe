/** `weir backup` and `weir restore` of an installation with a cell: a file for each database. */
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { send } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { emptyDatabase } from '../../helpers/postgres.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startCellApp(1));
const directory = temporaryDirectory();
let atHome: TestWebhook;
let inCell: TestWebhook;
beforeAll(async () => {
  [atHome, inCell] = [await app.webhookIn(0), await app.webhookIn(1)];
  for (const webhook of [atHome, inCell, inCell]) await send(webhook);
});

const filesOf = async (name: string) => (await readdir(directory)).filter((file) => file.startsWith(name)).sort();

test('each database has its file, and a restored cell is compared with the cell', async () => {
  const path = join(directory, 'all');
  const backup = await app.json('backup', path);
  expect(backup).toMatchObject({ file: path, events: 1, cells: [{ number: 1, file: `${path}.cell-1`, events: 2 }] });
  expect(await filesOf('all')).toEqual(['all', 'all.cell-1']);

  for (const webhook of [atHome, inCell, inCell, inCell]) await send(webhook);
  for (const [file, events, arrived_after] of [
    ['all', 1, 1],
    ['all.cell-1', 2, 3],
  ] as const) {
    const target = await emptyDatabase();
    onTestFinished(() => target.drop());
    const restored = await app.json('restore', join(directory, file), '--into', target.conninfo);
    expect(restored, file).toMatchObject({
      authenticated: true,
      compared: true,
      differences: [],
      events,
      arrived_after,
    });
  }
});

test('an existing file of home or of a cell is refused before anything is copied', async () => {
  for (const name of ['home', 'cell.cell-1']) {
    await writeFile(join(directory, name), 'kept');
    const [path] = name.split('.') as [string];
    const { code, err } = await app.weir('backup', join(directory, path));
    expect([code, err]).toEqual([1, `weir: ${join(directory, name)} exists; name another file, or give --overwrite\n`]);
    expect(await filesOf(path)).toEqual([name]);
  }
});

test('a cell that is away is reported, and home is backed up', async () => {
  await app.cells[0]!.cutOff();
  onTestFinished(() => app.cells[0]!.restore());
  const path = join(directory, 'away');
  const { code, out, err } = await app.weir('backup', path, '--json');
  expect([code, JSON.parse(out)]).toEqual([1, expect.objectContaining({ file: path })]);
  expect(err).toMatch(/weir: cell 1 was not backed up: the database at .* cannot be used: .*; start its server, or /);
  expect(await filesOf('away')).toEqual(['away']);
});

test('an export has the events of all databases, and is imported into them', async () => {
  const { out, err } = await app.weir('event', 'export');
  const file = join(directory, 'events.ndjson');
  await writeFile(file, out);
  const events = out.trim().split('\n').length;
  const [cell] = app.cells;
  const removed = await cell!.database.query({ text: 'delete from events returning id' });
  expect([err, removed.length > 0, removed.length < events]).toEqual(['', true, true]);
  expect(await app.json('event', 'import', file)).toEqual({
    imported: removed.length,
    existing: events - removed.length,
  });
  expect(await cell!.database.query({ text: 'select id from events' })).toHaveLength(removed.length);
});
