import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { realDisk } from '../../../server/receive/spool/disk.ts';
import { lockFolder } from '../../../server/receive/spool/folder.ts';
import { SpoolWriter } from '../../../server/receive/spool/writer.ts';
import { makeEmbeddedInstallation } from '../../helpers/command.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { idOf, newRow } from '../../receive/spool/events.ts';

const installation = shared(makeEmbeddedInstallation);
let spoolDir: string;
beforeEach(async () => {
  spoolDir = temporaryDirectory();
});

/** A folder with spooled events of a machine, and their ids. */
async function spoolOf(machine: string, events: number): Promise<{ folder: string; ids: string[] }> {
  const folder = join(spoolDir, machine);
  await mkdir(folder);
  const rows = Array.from({ length: events }, () => newRow());
  const writer = new SpoolWriter({
    disk: realDisk,
    folder,
    bytesMax: 16_777_216,
    ageMaxMs: 3_600_000,
    writers: () => 1,
    nowMs: Date.now,
    onFailed: (error) => expect.fail(error.message),
  });
  expect(await writer.append(rows)).toBe(null);
  await writer.close();
  return { folder, ids: rows.map(idOf) };
}

test('the spools of machines that do not come back are listed and drained, one that is in use is not', async () => {
  const [one, other] = [await spoolOf('one-1', 3), await spoolOf('other-2', 2)];
  const lock = await lockFolder(other.folder);
  const listed = await installation.weir(['spool', 'list', spoolDir, '--json']);
  expect(JSON.parse(listed.out)).toMatchObject({
    folders: [
      { folder: one.folder, in_use: false, events: 3, damaged: 0, refused: 0, oldest_at: expect.any(String) },
      { folder: other.folder, in_use: true, events: 2 },
    ],
  });
  expect((await installation.weir(['spool', 'list', one.folder])).out).toMatch(/^FOLDER .*\n.*one-1 +no +3 /);
  const refused = await installation.weir(['spool', 'drain', spoolDir]);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('is in use by process')]);
  expect(refused.out).toContain(`${one.folder}: 3 events stored`);
  await lock.release();

  const drained = await installation.weir(['spool', 'drain', spoolDir, '--json']);
  expect([drained.err, drained.code]).toEqual(['', 0]);
  expect(JSON.parse(drained.out)).toMatchObject({ folders: [{ stored: 0, known: 0 }, { stored: 2 }] });
  expect([await readdir(one.folder), await readdir(other.folder)]).toEqual([[], []]);
  const exported = await installation.weir(['event', 'export']);
  expect([exported.code, exported.out]).toEqual([0, expect.stringContaining(one.ids[0]!)]);
});

test.each([
  [1, '1 event stored, 0 duplicates dropped, 0 were stored already, 0 refused.'],
  [2, '2 events stored, 0 duplicates dropped, 0 were stored already, 0 refused.'],
])('what was drained is stated: %i', async (events, text) => {
  const { folder } = await spoolOf(`machine-${events}`, events);
  expect(await installation.weir(['spool', 'drain', folder])).toEqual({
    code: 0,
    out: `${folder}: ${text}\n`,
    err: '',
  });
});

test('what was imported is stated, also a second time', async () => {
  const { folder } = await spoolOf('machine-3', 1);
  await installation.weir(['spool', 'drain', folder]);
  const { out } = await installation.weir(['event', 'export', '--limit', '1']);
  const file = join(spoolDir, 'events.ndjson');
  await writeFile(file, out);
  const imported = await installation.weir(['event', 'import', file]);
  expect([imported.out, imported.err]).toEqual(['Imported 0 events; 1 was stored already.\n', '']);
});

test('a directory that cannot be read is named', async () => {
  const { code, err } = await installation.weir(['spool', 'list', join(spoolDir, 'none')]);
  expect([code, err]).toEqual([1, expect.stringContaining(`${spoolDir}/none cannot be read: there is no such file`)]);
});
