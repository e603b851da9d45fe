/** Folders of INGEST_SPOOL_DIR that another user may have prepared. */
import { lstatSync, statSync } from 'node:fs';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { realDisk } from '../../../server/receive/spool/disk.ts';
import { claimFolder } from '../../../server/receive/spool/folder.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

const isRoot = process.getuid!() === 0;
/** Root gives the folder to the user of the serving processes. */
const owner = isRoot ? { uid: 4_321, gid: 4_321 } : null;
let directory: string;
let spoolDir: string;
beforeEach(async () => {
  directory = temporaryDirectory();
  spoolDir = join(directory, 'spool');
});

test('the folder is private and belongs to the user of the serving processes', async () => {
  const { folder, lock } = await claimFolder(spoolDir, directory, owner);
  await lock.release();
  const { mode, uid } = lstatSync(folder);
  expect([mode & 0o777, uid]).toEqual([0o700, owner?.uid ?? process.getuid!()]);
});

test('a folder that is a symbolic link is refused, and what it names keeps its owner and mode', async () => {
  const other = join(directory, 'other');
  await mkdir(other);
  await chmod(other, 0o755);
  await mkdir(spoolDir);
  await symlink(other, join(spoolDir, 'machine-1'));
  await writeFile(join(directory, 'spool-folder'), 'machine-1\n');
  await expect(claimFolder(spoolDir, directory, owner)).rejects.toThrow(
    /INGEST_SPOOL_DIR .* cannot be used: (ELOOP|ENOTDIR)/,
  );
  const { mode, uid } = statSync(other);
  expect([mode & 0o777, uid]).toEqual([0o755, process.getuid!()]);
});

test('a directory that cannot be created is refused, also below /proc', async () => {
  await expect(claimFolder('/proc/none/spool', directory, owner)).rejects.toThrow(
    'INGEST_SPOOL_DIR /proc/none/spool cannot be used: ENOENT',
  );
});

test('a link in the folder is not a segment', async () => {
  const other = join(directory, 'other');
  await writeFile(other, 'x');
  const link = join(directory, '1700000000123-7-0123abcd-v2.open');
  await symlink(other, link);
  expect((await realDisk.list(directory)).map(({ name }) => name)).toEqual(['other']);
  await expect(realDisk.open(link)).rejects.toThrow('ELOOP');
});
