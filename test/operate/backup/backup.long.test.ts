/** `weir backup` and `weir restore` on databases of a server: what they refuse, compare and report. */

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { copyFile, mkdtemp, open, readdir, rename, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { readArchive } from '../../../server/operate/backup/archive-file.ts';
import { appendRecord, compareContents, readContents } from '../../../server/operate/backup/record.ts';
import { advisoryLocks } from '../../../server/store/advisory-locks.ts';
import { deriveKey } from '../../../server/store/secrets/seal.ts';
import { type CommandResult, expectRefused, weirOn, weirOnWith } from '../../helpers/command.ts';
import { installNextRelease, nextMigration } from '../../helpers/next-release.ts';
import { emptyDatabase, type FreshDatabase, freshDatabase } from '../../helpers/postgres.ts';
import { someKey } from '../../helpers/settings.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { PATIENCE_MS, until } from '../../helpers/wait.ts';
import { spawnWeir } from '../../helpers/weir.ts';

let directory: string;
const source = shared(freshDatabase);
let target: FreshDatabase;
let file: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'weir-b-'));
  file = join(directory, 'weir.dump');
  await source.sql(`
      insert into webhooks (id, name) values ('00000000-0000-4000-8000-000000000001', 'orders');
      insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes)
      select gen_random_uuid(), '00000000-0000-4000-8000-000000000001', now() - n * interval '1 millisecond', '192.0.2.1', '{}', convert_to(rpad('body ' || n, 2000), 'UTF8'), 2000
      from generate_series(1, 1500) n`);
  // Several parts of the file, and more than a pipe holds: a program that lists the archive exits before it has read them.
  await source.sql(
    `update events set body = $1, bytes = $2 where id = (select id from events order by id limit 1)`,
    randomBytes(3_000_000),
    3_000_000,
  );
  expect(await weirOn(source.conninfo, 'backup', file)).toMatchObject({ code: 0 });
});
beforeEach(async () => {
  target = await ofTest(emptyDatabase());
});
afterAll(() => rm(directory, { recursive: true }));

const restoreInto = (into: FreshDatabase, path = file, ...flags: string[]) =>
  weirOn(source.conninfo, 'restore', path, '--into', into.conninfo, ...flags);
const documentOf = ({ out }: CommandResult) => JSON.parse(out) as Record<string, unknown>;
const tableCount = async ({ database }: FreshDatabase) =>
  (await database.query({ text: `select from pg_class where relnamespace = 'public'::regnamespace` })).length;

test('a backup is private, complete and says that the key is not in it', async () => {
  const path = join(directory, 'private.dump');
  const { code, out, err } = await weirOn(source.conninfo, 'backup', path);
  expect([code, err]).toEqual([0, expect.stringMatching(/^Backing up .* to .*private\.dump\n$/)]);
  expect(out).toMatch(/1,500 events and 0 deliveries of 20.*\nSECRETS_KEY is not in the backup/);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect((await readdir(directory)).filter((name) => name.endsWith('.unfinished'))).toEqual([]);
});

test('an existing file is replaced only with --overwrite', async () => {
  const path = join(directory, 'kept.dump');
  await writeFile(path, 'something else');
  await expectRefused(weirOn(source.conninfo, 'backup', path), 'kept.dump exists; name another file');
  expect((await stat(path)).size).toBe(14);
  expect((await weirOn(source.conninfo, 'backup', path, '--overwrite')).code).toBe(0);
  expect((await stat(path)).size).toBeGreaterThan(10_000);
});

test('a backup that fails leaves no file', async () => {
  const path = join(directory, 'never.dump');
  // An empty database is not one of Weir.
  await expectRefused(weirOn(target.conninfo, 'backup', path), 'This database contains no Weir');
  await expectRefused(
    weirOn(source.conninfo, 'backup', join(directory, 'missing/never.dump')),
    'never.dump.unfinished cannot be written',
  );
  expect((await readdir(directory)).filter((name) => name.startsWith('never'))).toEqual([]);
});

test('the pg_dump of a backup that was killed does not write to the next one', async () => {
  const path = join(directory, 'orphan.dump');
  const orphan = await open(`${path}.unfinished`, 'w', 0o600);
  await orphan.write('begun');
  expect((await weirOn(source.conninfo, 'backup', path)).code).toBe(0);
  await orphan.write('continued');
  await orphan.close();
  const archive = await readArchive(path, [deriveKey(someKey, 'backups')]);
  expect(archive.isAuthentic).toBe(true);
  await archive.close();
});

test('a restored database equals the backup, and what arrived later is counted', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  await source.sql(
    `insert into events select gen_random_uuid(), webhook_id, now(), source_ip, headers, content_type, body, bytes from events limit 7`,
  );
  onTestFinished(() =>
    source
      .sql(`delete from events where id in (select id from events order by received_at desc limit 7)`)
      .then(() => {}),
  );
  const restored = await restoreInto(target, file, '--json');
  expect(restored.code).toBe(0);
  expect(documentOf(restored)).toMatchObject({
    compared: true,
    events: 1500,
    differences: [],
    migrated: [],
    arrived_after: 7,
  });
  // The script is many times larger than the pipe to psql, and no wait leaves a listener.
  expect(warnings).toEqual([]);
  const second = await ofTest(emptyDatabase());
  expect((await restoreInto(second)).out).toMatch(
    /^Restored 1,500 events of 20.*\nCounts, and hashes .* equal .*\nEvents that arrived after the backup and are not in it: 7\.\n.*SECRETS_KEY is not in the backup/,
  );
});

test('a role without privileges restores without a warning', async () => {
  const role = `plain_${randomBytes(4).toString('hex')}`;
  await target.sql(`create role ${role} login; alter database ${target.name} owner to ${role}`);
  onTestFinished(async () => {
    await target.sql(`reassign owned by ${role} to current_user; drop role ${role}`);
  });
  const into = target.conninfo.replace(/user='?\w+'?/, `user=${role}`);
  expect(into).toContain(role);
  // libpq writes the server's warnings to the standard error of its process.
  const restoring = spawnWeir(
    { DATABASE_URL: source.conninfo, SECRETS_KEY: someKey, DATA_DIR: directory },
    { command: ['restore', file, '--into', into] },
  );
  expect([await restoring.ended, restoring.stderr()]).toEqual([0, expect.stringMatching(/^Restoring .*\n$/)]);
  expect(restoring.lines[0]).toMatch(/^Restored 1,500 events/);
});

test('a database that is not empty is refused and stays as it is', async () => {
  await target.sql('create table mine (id int)');
  await expectRefused(restoreInto(target), 'The database is not empty; restore into a new database');
  expect(await tableCount(target)).toBe(1);
});

test.each([
  ['cut off', (path: string) => stat(path).then(({ size }) => truncate(path, size - 3_000)), /cannot be authenticated/],
  [
    'with a changed byte',
    async (path: string) => {
      const bytes = readFileSync(path);
      bytes[bytes.length >> 1]! ^= 1;
      await writeFile(path, bytes);
    },
    /is damaged: its contents have changed/,
  ],
  [
    'that is not a backup',
    (path: string) => writeFile(path, 'hello'),
    /cannot be authenticated: weir backup did not write it/,
  ],
] as const)('a file %s is refused, and nothing is restored', async (_, damage, reason) => {
  const path = join(directory, 'damaged.dump');
  await copyFile(file, path);
  await damage(path);
  await expectRefused(restoreInto(target, path), reason);
  expect(await tableCount(target)).toBe(0);
});

test('a restored row that differs is reported', async () => {
  const changed = await ofTest(freshDatabase());
  const before = await readContents(source.database.query);
  const day = Object.keys(before.tables).find((name) => name.startsWith('events_2') && before.tables[name]! > 0)!;
  expect(compareContents(before, before)).toEqual([]);
  expect(compareContents(before, await readContents(changed.database.query))).toEqual(
    expect.arrayContaining([
      `${day}: ${before.tables[day]} rows in the backup, 0 in the database`,
      'events: the newest 1000 rows are not the ones of the backup',
    ]),
  );
});

/** Restores a backup of this release by the next one. */
async function restoreByNext(): Promise<CommandResult> {
  const { entry, remove } = await installNextRelease();
  onTestFinished(remove);
  const restoring = spawnWeir(
    { DATABASE_URL: source.conninfo, SECRETS_KEY: someKey, DATA_DIR: directory },
    { command: ['restore', file, '--into', target.conninfo, '--json'], entry },
  );
  const code = (await restoring.ended) as number;
  return { code, out: restoring.lines.join('\n'), err: restoring.stderr() };
}

test('an older backup is migrated, without a migration of its source', async () => {
  expect(documentOf(await restoreByNext())).toMatchObject({ differences: [], migrated: [nextMigration] });
  const text = 'select count(*)::int from schema_migrations where name = $1';
  expect(await source.sql(text, nextMigration)).toEqual([{ count: 0 }]);
});

test.each([
  [
    'newer',
    `insert into schema_migrations (version, name) values (9999, 'future.sql')`,
    '9999, newer than this release',
  ],
  [
    'too old',
    'update schema_migrations set version = 13 where version = 14',
    '13, of a commit that this release does not upgrade; restore it with npx --no weir restore of commit 59f02da6, which upgrades it',
  ],
])('a backup that is %s is refused', async (name, text, reason) => {
  const path = join(directory, `${name}.dump`);
  const other = await ofTest(freshDatabase());
  await other.sql(text);
  expect((await weirOn(other.conninfo, 'backup', path)).code).toBe(0);
  const second = await ofTest(emptyDatabase());
  await expectRefused(restoreInto(second, path), `the backup is at schema version ${reason}`);
  expect(await tableCount(second)).toBe(0);
});

/** A backup with the hash of its contents, as anybody can write it. */
async function forgedBackup(name: string, key: Buffer | null): Promise<string> {
  const path = join(directory, name);
  const bytes = readFileSync(file);
  const [, length] = /\nweir-backup (\d+)\n$/.exec(bytes.toString('latin1').slice(-40))!;
  const start = bytes.length - Number(length) - `\nweir-backup ${length}\n`.length;
  const { mac: _, ...record } = JSON.parse(bytes.toString('utf8', start, start + Number(length)));
  await writeFile(path, bytes.subarray(0, start));
  await appendRecord(path, record, key);
  return path;
}

const previousKey = Buffer.alloc(32, 9).toString('base64');

test('a restore says what the migration of an older backup waits for', async () => {
  const waiting = async (type: string) =>
    (
      await source.sql(
        `select from pg_locks join pg_database d on d.oid = database
          where not granted and locktype = $1 and datname = $2`,
        type,
        target.name,
      )
    ).length === 1;
  const schema = [advisoryLocks.schema];
  let restoring: Promise<CommandResult> | undefined;
  await target.database.transaction(async (query) => {
    // The lock passes to the load, and from there back to this session, ahead of the migration.
    await query({ text: 'select pg_advisory_lock($1)', values: schema });
    restoring = restoreByNext();
    await until(() => waiting('advisory'));
    await query({ text: 'select pg_advisory_unlock($1)', values: schema });
    await query({ text: 'select pg_advisory_lock($1)', values: schema, timeoutMs: PATIENCE_MS });
    await query({ text: 'lock table webhooks in access share mode' });
    await query({ text: 'select pg_advisory_unlock($1)', values: schema });
    await until(() => waiting('relation'));
    await until(async () => !(await waiting('relation')));
  });
  const result = (await restoring)!;
  expect([result.code, documentOf(result).differences]).toEqual([0, []]);
  expect(result.err).toMatch(
    /^weir: the migration waits for the lock of webhooks, held by session \d+ .*; it is tried again$/m,
  );
});

test('a backup that no key authenticates is restored only with --trust-file, which says that a backup is code', async () => {
  for (const key of [null, deriveKey(previousKey, 'backups'), deriveKey(someKey, 'saved-webhooks')]) {
    const path = await forgedBackup('forged.dump', key);
    await expectRefused(
      restoreInto(target, path),
      /cannot be authenticated: it was written with another key.*a backup is code.*--trust-file/s,
    );
    expect(await tableCount(target)).toBe(0);
  }
  const path = await forgedBackup('forged.dump', null);
  const trusted = await restoreInto(target, path, '--trust-file', '--json');
  expect(documentOf(trusted)).toMatchObject({ authenticated: false, compared: true, events: 1500, differences: [] });
});

test('SECRETS_KEY_PREVIOUS authenticates a backup, and without a key the advice is to put the key there first', async () => {
  const path = await forgedBackup('earlier.dump', deriveKey(previousKey, 'backups'));
  const restored = await weirOnWith(
    source.conninfo,
    { SECRETS_KEY_PREVIOUS: previousKey },
    'restore',
    path,
    '--into',
    target.conninfo,
    '--json',
  );
  expect(documentOf(restored)).toMatchObject({ authenticated: true, events: 1500, differences: [] });
  const second = await ofTest(emptyDatabase());
  const data = join(directory, 'fresh-data');
  await expectRefused(
    weirOnWith(
      source.conninfo,
      { DATABASE_URL: '', SECRETS_KEY: '', DATA_DIR: data },
      'restore',
      path,
      '--into',
      second.conninfo,
    ),
    /this installation has no key yet.*secrets\.key in DATA_DIR/s,
  );
  expect(await tableCount(second)).toBe(0);
  await expect(stat(join(data, 'secrets.key'))).rejects.toThrow('ENOENT');
});

test('a backup that is missing is named, and why it cannot be read', async () => {
  const reason = /none\.dump cannot be read: there is no such file$/m;
  await expectRefused(restoreInto(target, join(directory, 'none.dump')), reason);
});

test('a changed record is not authentic, and one that is not JSON is damaged', async () => {
  for (const [from, to, reason] of [
    ['"format":1', '"format":1,"x":1', /is damaged: its record does not fit|cannot be authenticated/],
    ['"schema_version":', '"schema_version":9', /cannot be authenticated/],
    ['"format":1', '"format":1]', /record does not fit/],
  ] as const) {
    const path = join(directory, 'changed.dump');
    const bytes = readFileSync(file).toString('latin1');
    const at = bytes.lastIndexOf('{"format":1');
    const record = bytes.slice(at, bytes.lastIndexOf('\nweir-backup ')).replace(from, to);
    await writeFile(path, Buffer.from(`${bytes.slice(0, at)}${record}\nweir-backup ${record.length}\n`, 'latin1'));
    await expectRefused(restoreInto(target, path), reason);
  }
  expect(await tableCount(target)).toBe(0);
});

const collecting = (parts: Buffer[]) =>
  new Writable({
    write(part: Buffer, _, done) {
      parts.push(part);
      done();
    },
  });

test('a file that changes after it was verified is not passed on', async () => {
  const path = join(directory, 'swapped.dump');
  await copyFile(file, path);
  const archive = await readArchive(path, [deriveKey(someKey, 'backups')]);
  onTestFinished(() => archive.close());
  expect(archive.isAuthentic).toBe(true);
  const received = async () => {
    const parts: Buffer[] = [];
    const sink = collecting(parts);
    await archive.write(sink);
    return Buffer.concat(parts);
  };
  const before = readFileSync(path);
  expect((await received()).equals(before.subarray(0, archive.bytes))).toBe(true);
  // Another file at the path: the verified one is read.
  await writeFile(`${path}.other`, 'other');
  await rename(`${path}.other`, path);
  expect((await received()).equals(before.subarray(0, archive.bytes))).toBe(true);

  const second = join(directory, 'overwritten.dump');
  await writeFile(second, before);
  const overwritten = await readArchive(second);
  onTestFinished(() => overwritten.close());
  before[100]! ^= 1;
  await writeFile(second, before);
  const parts: Buffer[] = [];
  const sink = collecting(parts);
  await expect(overwritten.write(sink)).rejects.toThrow('was changed while it was read');
  expect(parts).toEqual([]);
});

test('a symbolic link in place of the unfinished backup is not followed', async () => {
  const other = join(directory, 'other');
  await writeFile(other, 'kept');
  await symlink(other, join(directory, 'linked.dump.unfinished'));
  await expectRefused(
    weirOn(source.conninfo, 'backup', join(directory, 'linked.dump')),
    'linked.dump.unfinished cannot be written',
  );
  expect(readFileSync(other, 'utf8')).toBe('kept');
});
