import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readSettings } from '../../../server/base/settings/read.ts';
import { checkSpool } from '../../../server/operate/doctor/spool.ts';
import { realDisk } from '../../../server/receive/spool/disk.ts';
import { fileName, newStem } from '../../../server/receive/spool/names.ts';
import { SpoolWriter } from '../../../server/receive/spool/writer.ts';
import { canMount, mountSmallDisk, skippedNote } from '../../helpers/small-disk.ts';
import { newRow } from '../../receive/spool/events.ts';

let base: string;
beforeEach(async () => {
  // On a disk: the directory of the run may be in memory, where a spool is a problem.
  base = await mkdtemp('/var/tmp/weir-doctor-');
});
afterEach(() => rm(base, { recursive: true }));

const settings = (given: Record<string, string> = { INGEST_SPOOL_DIR: 'spool' }) =>
  readSettings({ DATA_DIR: base, ...given }, base);
const statesOf = async (...given: Parameters<typeof checkSpool>) =>
  (await checkSpool(...given)).map(({ name, state }) => `${name} ${state}`);

async function spoolOne(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const [disk, nowMs] = [realDisk, Date.now];
  const onFailed = (error: Error) => expect.fail(error.message);
  const writer = new SpoolWriter({ disk, folder, bytesMax: 1e8, ageMaxMs: 1e8, writers: () => 1, nowMs, onFailed });
  expect(await writer.append([newRow()])).toBe(null);
  await writer.close();
}

test('no directory, and one that does not exist yet', async () => {
  expect(await statesOf(settings({}))).toEqual(['spool ok']);
  expect(await checkSpool(settings())).toMatchObject([
    { state: 'ok', finding: expect.stringContaining('will be created') },
  ]);
});

test.runIf(canMount)(`a spool whose disk is full${skippedNote}`, async () => {
  const spool = join(base, 'spool');
  await mkdir(spool);
  const unmount = mountSmallDisk(spool, '64k', 0o711);
  try {
    await writeFile(join(spool, 'ballast'), Buffer.alloc(1_000_000)).catch(({ code }) => expect(code).toBe('ENOSPC'));
    expect(await checkSpool(settings())).toMatchObject([
      { state: 'problem', finding: expect.stringContaining('ENOSPC'), fix: expect.stringContaining('free space on') },
    ]);
  } finally {
    unmount();
  }
});

test('own events, events of another installation, and files that were kept', async () => {
  await writeFile(join(base, 'spool-folder'), 'me-1\n');
  const [own, other] = [join(base, 'spool/me-1'), join(base, 'spool/you-2')];
  await spoolOne(own);
  await spoolOne(other);
  await mkdir(join(base, 'spool/empty-3'));
  await writeFile(join(own, fileName(newStem(0), 'damaged')), 'x');
  const checks = await checkSpool(settings(), () => Date.now() + 600_000);
  expect(checks).toMatchObject([
    { name: 'spool' },
    { name: 'spool_in_use', state: 'advice', finding: expect.stringMatching(/^1 events .* the oldest for 10 min$/) },
    { name: 'spool_files_kept', state: 'advice', finding: expect.stringContaining('1 damaged files and 0 events') },
    { name: 'spool_of_another', state: 'advice', fix: expect.stringContaining(`weir spool drain ${other}`) },
  ]);
});

test('a directory that cannot be written, and a disk with less room than the limit', async () => {
  await writeFile(join(base, 'spool'), '');
  expect(await statesOf(settings())).toEqual(['spool problem']);
  await rm(join(base, 'spool'));
  await mkdir(join(base, 'spool'));
  const large = settings({ INGEST_SPOOL_DIR: 'spool', INGEST_SPOOL_BYTES_MAX: '1099511627776' });
  expect(await statesOf(large)).toEqual(['spool advice']);
});
