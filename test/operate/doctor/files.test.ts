/** The doctor checks DATA_DIR, its disks, the key and the spool. */
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readSettings } from '../../../server/base/settings/read.ts';
import { runChecks } from '../../../server/model/check.ts';
import { checkDisks, type FileSystem, fileChecks, readKey } from '../../../server/operate/doctor/files.ts';
import { realDisk } from '../../../server/receive/spool/disk.ts';
import { fileName, newStem } from '../../../server/receive/spool/names.ts';
import { SpoolWriter } from '../../../server/receive/spool/writer.ts';
import { settingsOf, someKey, temporaryDirectory } from '../../helpers/settings.ts';
import { canMount, mountSmallDisk, skippedNote } from '../../helpers/small-disk.ts';
import { newRow } from '../../receive/spool/events.ts';

const isRoot = process.getuid!() === 0;
/** As root, the account of Postgres needs access to the directory. */
const ownMode = isRoot ? 0o711 : 0o700;
const inDirectory = (directory: string) => settingsOf({ DATA_DIR: directory });
/** The checks by name. */
const look = async (directory: string) => {
  const checks = await runChecks(fileChecks, { settings: inDirectory(directory), nowMs: Date.now });
  return Object.fromEntries(checks.map((check) => [check.name, check]));
};

describe('the doctor checks DATA_DIR', () => {
  test('that is missing: its parent is checked, and it is not created', async () => {
    const parent = temporaryDirectory();
    chmodSync(parent, 0o755);
    const { data_dir, data_dir_mode } = await look(join(parent, 'a/b'));
    expect(data_dir).toMatchObject({ state: 'ok', finding: expect.stringContaining('will be created') });
    expect(data_dir_mode).toBe(undefined);
    expect(existsSync(join(parent, 'a'))).toBe(false);
  });

  test('that is a file', async () => {
    const path = join(temporaryDirectory(), 'file');
    writeFileSync(path, '');
    expect((await look(path)).data_dir).toMatchObject({ state: 'problem' });
  });

  test.runIf(isRoot)('into which the account of Postgres cannot walk', async () => {
    const directory = temporaryDirectory();
    chmodSync(directory, 0o700);
    const fix = expect.stringContaining(`chmod o+x ${directory}`);
    expect((await look(directory)).data_dir).toMatchObject({ state: 'problem', fix });
  });

  test.skipIf(isRoot)('into which we may not write', async () => {
    const directory = temporaryDirectory();
    chmodSync(directory, 0o500);
    expect((await look(directory)).data_dir!.state).toBe('problem');
  });

  test('and ARCHIVE_DIR, without which Weir does not start', async () => {
    const directory = temporaryDirectory();
    const look = async (ARCHIVE_DIR: string) => {
      const settings = settingsOf({ DATA_DIR: directory, ARCHIVE_DIR });
      const checks = await runChecks(fileChecks, { settings, nowMs: Date.now });
      return checks.find(({ name }) => name === 'archive_dir');
    };
    expect(await look(directory)).toMatchObject({ state: 'ok', finding: `${directory} is writable` });
    expect(await look(join(directory, 'none'))).toMatchObject({
      state: 'problem',
      finding: expect.stringContaining('none cannot be written (ENOENT'),
      fix: expect.stringContaining('create the directory'),
    });
  });

  test('and the disk of it', async () => {
    const directory = temporaryDirectory();
    chmodSync(directory, ownMode);
    expect(Object.keys(await look(directory))).toEqual(['serving_user', 'data_dir', 'disk', 'spool', 'secrets_key']);
  });

  test.each([
    ['look into', 0o755, 'advice'],
    ['write to', 0o777, 'problem'],
  ])('that others can %s', async (_, mode, state) => {
    const directory = temporaryDirectory();
    chmodSync(directory, mode);
    const { data_dir_mode } = await look(directory);
    expect(data_dir_mode).toMatchObject({
      state,
      fix: expect.stringContaining(`chmod ${ownMode.toString(8)} ${directory}`),
    });
  });
});

describe('the doctor checks the key', () => {
  test('that is given', async () => {
    const { found: check, keys } = await readKey(settingsOf({ SECRETS_KEY: someKey }));
    expect(check.state).toBe('ok');
    expect(keys).toEqual([someKey]);
    expect(JSON.stringify(check)).not.toContain(someKey);
  });

  test('that does not exist yet, and creates none', async () => {
    const directory = temporaryDirectory();
    const { found: check, keys } = await readKey(inDirectory(directory));
    expect(check.state).toBe('ok');
    expect(keys).toBeNull();
    expect(existsSync(join(directory, 'secrets.key'))).toBe(false);
  });

  test.each([
    ['for its owner alone', someKey, 0o600, 'ok'],
    ['that its group can read', someKey, 0o640, 'problem'],
    ['that other users can read', someKey, 0o604, 'problem'],
    ['that holds no key', 'nonsense', 0o600, 'problem'],
  ])('in a file %s', async (_, text, mode, state) => {
    const directory = temporaryDirectory();
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'secrets.key'), text);
    chmodSync(join(directory, 'secrets.key'), mode);
    const { found: check } = await readKey(inDirectory(directory));
    expect(check.state).toBe(state);
    expect(check.fix === null).toBe(state === 'ok');
  });
});

const GIB = 2 ** 30;
const lookAtDisks = async (disks: Record<string, FileSystem>, environment: Record<string, string> = {}) => {
  const checks = await checkDisks('/data', settingsOf(environment), async (path) => disks[path] ?? null);
  return checks.map(({ state, finding }) => `${state} ${finding}`);
};
const onServer = { DATABASE_URL: 'postgres://weir@db.example/weir', SECRETS_KEY: someKey };

describe('the doctor checks the free space', () => {
  test.each<[string, number, string]>([
    ['plenty', 5 * GIB, 'ok'],
    ['less than the log of the database may need', 5 * GIB - 1, 'advice'],
    ['just above the limit', GIB / 2, 'advice'],
    ['nearly none', GIB / 2 - 1, 'problem'],
  ])('of an embedded database: %s', async (_, freeBytes, state) => {
    expect(await lookAtDisks({ '/data': { device: 1, freeBytes } })).toEqual([
      `${state} ${(freeBytes / GIB).toFixed(1)} GiB are free at /data`,
    ]);
  });

  test('of each file system, once', async () => {
    const disks = {
      '/data': { device: 1, freeBytes: 9 * GIB },
      '/data/postgres': { device: 2, freeBytes: 2 * GIB },
      '/data/postgres/pg_wal': { device: 2, freeBytes: 2 * GIB },
    };
    expect(await lookAtDisks(disks)).toEqual([
      'advice 2.0 GiB are free at /data/postgres/pg_wal',
      'ok 9.0 GiB are free at /data',
    ]);
  });

  test.each<[number, string]>([
    [GIB, 'ok'],
    [GIB - 1, 'advice'],
    [GIB / 2 - 1, 'problem'],
  ])('of DATA_DIR beside a server database: %d bytes', async (freeBytes, state) => {
    expect(await lookAtDisks({ '/data': { device: 1, freeBytes } }, onServer)).toEqual([
      expect.stringContaining(`${state} `) as unknown as string,
    ]);
  });
});

let base: string;
beforeEach(async () => {
  // On a disk: the directory of the run may be in memory, where a spool is a problem.
  base = await mkdtemp('/var/tmp/weir-doctor-');
});
afterEach(() => rm(base, { recursive: true }));

const spoolSettings = (given: Record<string, string> = { INGEST_SPOOL_DIR: 'spool' }) =>
  readSettings({ DATA_DIR: base, ...given }, base);
const lookAtSpool = (given = spoolSettings(), nowMs = Date.now) =>
  runChecks({ spool: fileChecks.spool }, { settings: given, nowMs });
const statesOf = async (given = spoolSettings()) =>
  (await lookAtSpool(given)).map(({ name, state }) => `${name} ${state}`);

async function spoolOne(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const [disk, nowMs] = [realDisk, Date.now];
  const onFailed = (error: Error) => expect.fail(error.message);
  const writer = new SpoolWriter({ disk, folder, bytesMax: 1e8, ageMaxMs: 1e8, writers: () => 1, nowMs, onFailed });
  expect(await writer.append([newRow()])).toBe(null);
  await writer.close();
}

test('no directory, and one that does not exist yet', async () => {
  expect(await statesOf(spoolSettings({}))).toEqual(['spool advice']);
  expect(await lookAtSpool()).toMatchObject([{ state: 'ok', finding: expect.stringContaining('will be created') }]);
});

test.runIf(canMount)(`a spool whose disk is full${skippedNote}`, async () => {
  const spool = join(base, 'spool');
  await mkdir(spool);
  const unmount = mountSmallDisk(spool, '64k', 0o711);
  try {
    await writeFile(join(spool, 'ballast'), Buffer.alloc(1_000_000)).catch(({ code }) => expect(code).toBe('ENOSPC'));
    expect(await lookAtSpool()).toMatchObject([
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
  const checks = await lookAtSpool(spoolSettings(), () => Date.now() + 600_000);
  expect(checks).toMatchObject([
    { name: 'spool' },
    {
      name: 'spool_in_use',
      state: 'advice',
      finding: expect.stringMatching(/^1 event .* waits in .* the oldest for 10 min$/),
    },
    { name: 'spool_files_kept', state: 'advice', finding: expect.stringContaining('1 damaged file and 0 events') },
    { name: 'spool_of_another', state: 'advice', fix: expect.stringContaining(`weir spool drain ${other}`) },
  ]);
});

test('a directory that cannot be written, and a disk with less room than the limit', async () => {
  await writeFile(join(base, 'spool'), '');
  expect(await statesOf(spoolSettings())).toEqual(['spool problem']);
  await rm(join(base, 'spool'));
  await mkdir(join(base, 'spool'));
  const large = spoolSettings({ INGEST_SPOOL_DIR: 'spool', INGEST_SPOOL_BYTES_MAX: '1099511627776' });
  expect(await statesOf(large)).toEqual(['spool advice']);
});
