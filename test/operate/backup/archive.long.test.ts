/** ARCHIVE_DIR: days are written before they are dropped, and `weir event import` stores them again. */

import { spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip, gunzipSync } from 'node:zlib';
import { beforeEach, expect, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { archiveTo } from '../../../server/operate/backup/write.ts';
import { advisoryLocks } from '../../../server/store/advisory-locks.ts';
import { uuidText, uuidv7 } from '../../../server/store/ids.ts';
import { countUnarchived } from '../../../server/store/queries/alerts/expiring.ts';
import { type Archive, dropOldPartitions } from '../../../server/store/retention/drop-partitions.ts';
import { createPartitions, partitionName } from '../../../server/store/retention/partitions.ts';
import { removeExpiredEvents } from '../../../server/store/retention/retention.ts';
import { expectRefused, weirOn } from '../../helpers/command.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { builtScript } from '../../helpers/script.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { ofEach } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const nowMs = Date.now();
const oldMs = nowMs - 6 * DAY_MS;
const partition = partitionName('events', oldMs);
const file = `${partition}.ndjson.gz`;
const archiveDir = () => join(directory, 'archive');
const fresh = ofEach(freshDatabase);
let directory: string;
let webhookId: string;

beforeEach(async () => {
  directory = temporaryDirectory();
  await mkdir(archiveDir());
  await createPartitions(fresh.database, oldMs);
  webhookId = randomUUID();
  await fresh.sql(`insert into webhooks (id, name) values ($1, 'w')`, webhookId);
});

/** Stores one event with a delivery. */
async function store(body: Buffer, { headers = 'x-a: 1\nx-a: 2', type = null as string | null, atMs = oldMs } = {}) {
  const id = uuidText(uuidv7(atMs, randomBytes(16)));
  await fresh.sql(
    `insert into events (id, webhook_id, received_at, source_ip, headers, content_type, event_type, body, bytes)
           values ($1, $2, $3, '2001:db8::1', convert_to($4, 'UTF8'), 'text/plain', $5, $6, $7)`,
    id,
    webhookId,
    new Date(atMs).toISOString(),
    headers,
    type,
    body,
    body.length,
  );
  await fresh.sql(
    `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, finished_at)
           values ($1, $2, gen_random_uuid(), $1, $3, $4, 'done', now())`,
    id,
    webhookId,
    new Date(atMs).toISOString(),
    body.length,
  );
  return id;
}

const rows = async () =>
  (await fresh.sql<{ row: string }>('select id || md5(e::text) as row from events e order by id')).map(
    ({ row }) => row,
  );
const drop = (archive: Archive = archiveTo(archiveDir())) => dropOldPartitions(fresh.database, 3, nowMs, { archive });
const archived = () => readdir(archiveDir());
const linesOf = async (name: string) =>
  gunzipSync(await readFile(join(archiveDir(), name)))
    .toString()
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const restoreDay = (name = file) => weirOn(fresh.conninfo, 'event', 'import', join(archiveDir(), name), '--json');
const imported = async () => {
  const { out, err } = await restoreDay();
  expect(err).toBe('');
  return JSON.parse(out) as object;
};
const waiting = () => countUnarchived(fresh.database, { retentionDays: 3, keepUndeliveredDays: 0 }, nowMs);

test('a day is written before it is dropped, and imported again byte for byte, once', async () => {
  await store(Buffer.from('{"order":1}'), { type: 'order' });
  await store(Buffer.from([0, 255, 1]));
  await store(Buffer.alloc(0), { headers: '' });
  await store(Buffer.from('ünïcode \u2028\n'), { headers: 'x-ü: ü' });
  // More rows than a page, and bodies larger than one.
  for (const _ of [1, 2, 3]) await store(randomBytes(2_000_000));
  await fresh.sql(`insert into events select overlay(id::text placing lpad(n::text, 6, '0') from 31)::uuid, webhook_id, received_at, source_ip, headers, content_type, body, bytes, event_type
           from events, generate_series(1, 1100) n where event_type = 'order'`);
  const before = await rows();
  const dropped = await drop();
  expect(dropped).toMatchObject({ unarchived: [], unhandled: 0 });
  expect(dropped.partitions).toContain(partition);
  expect(await rows()).toEqual([]);
  expect(await linesOf(file)).toHaveLength(1107);
  const deliveries = await linesOf(file.replace('events', 'deliveries'));
  expect(deliveries).toHaveLength(7);
  expect(deliveries[0]).toMatchObject({ webhook_id: webhookId, state: 'done', attempts: 0 });
  expect((await archived()).filter((name) => name.endsWith('.unfinished'))).toEqual([]);

  expect(await imported()).toEqual({ imported: 1107, existing: 0 });
  expect(await rows()).toEqual(before);
  expect(await imported()).toEqual({ imported: 0, existing: 1107 });
  expect(await rows()).toEqual(before);
  expect(await fresh.sql('select from deliveries')).toEqual([]);
});

test('imported events get no deliveries, although an agent is subscribed', async () => {
  await fresh.sql(
    `with agent as (insert into agents (id, name, lookup_id, secret_hash) values (gen_random_uuid(), 'a', 'aaaaaaaaaaaa', sha256('x')) returning id)
           insert into subscriptions (webhook_id, agent_id) select $1, id from agent`,
    webhookId,
  );
  await store(Buffer.from('x'));
  await drop();
  expect(await imported()).toEqual({ imported: 1, existing: 0 });
  expect(await fresh.sql('select from deliveries')).toEqual([]);
});

test.each([
  ['a directory in the way', () => mkdir(join(archiveDir(), `${partition}.unfinished`)), /EISDIR|is a directory/],
  ['a directory that does not exist', () => rm(archiveDir(), { recursive: true }), /ENOENT/],
] as const)('with %s the day is kept and reported, and written by a later run', async (_, harm, reason) => {
  await store(randomBytes(100_000));
  await harm();
  const failed = await drop();
  expect(failed.unarchived).toContainEqual({ partition, reason: expect.stringMatching(reason) });
  expect(failed.partitions).not.toContain(partition);
  expect(await waiting()).toBeGreaterThan(0);
  await rm(join(archiveDir(), `${partition}.unfinished`), { recursive: true, force: true });
  await mkdir(archiveDir(), { recursive: true });
  expect((await drop()).unarchived).toEqual([]);
  expect(await linesOf(file)).toHaveLength(1);
  expect(await waiting()).toBe(0);
});

/** A maintenance in a process of its own, which stops at this point and says so. */
async function killAt(point: 'page' | 'written') {
  const script = await builtScript(`
    import { openDatabase } from '#server/store/connect/pool.ts';
    import { dropOldPartitions } from '#server/store/retention/drop-partitions.ts';
    import { archiveTo } from '#server/operate/backup/write.ts';
    const [url, directory, partition, nowMs] = process.argv.slice(2);
    const halt = () => new Promise(() => { process.stdout.write('here'); setInterval(() => {}, 1000); });
    const database = openDatabase(url!, { connectionsMax: 2, applicationName: 'killed' });
    const real = archiveTo(directory!);
    const archive = async (name, query) => {
      if (name !== partition) return real(name, query);
      let pages = 0;
      await real(name, (statement) => ('${point}' === 'page' && ++pages === 2 ? halt() : query(statement)));
      await halt();
    };
    await dropOldPartitions(database, 3, Number(nowMs), { archive });`);
  const child = spawn(process.execPath, [script, fresh.conninfo, archiveDir(), partition, String(nowMs)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'exit');
  // Postgres ends its session, with the lock of the archive, a moment later.
  const text = `select from pg_stat_activity where application_name = 'killed' and datname = current_database()`;
  await until(async () => (await fresh.sql(text)).length === 0);
}

test.each(['page', 'written'] as const)('a run that is killed at a %s is repeated, with one file', async (point) => {
  for (const _ of [1, 2, 3]) await store(randomBytes(3_000_000));
  const before = await rows();
  await killAt(point);
  expect((await archived()).includes(file)).toBe(point === 'written');
  expect((await drop()).unarchived).toEqual([]);
  expect((await archived()).filter((name) => name.startsWith(partition))).toEqual([file]);
  expect(await imported()).toMatchObject({ existing: 0 });
  expect(await rows()).toEqual(before);
});

test('a file with other contents is never replaced', async () => {
  await store(Buffer.from('first'));
  await drop();
  await createPartitions(fresh.database, oldMs);
  await store(Buffer.from('second'));
  await drop();
  expect((await linesOf(file))[0]).toMatchObject({ body: 'first' });
  expect((await linesOf(`${partition}.2.ndjson.gz`))[0]).toMatchObject({ body: 'second' });
});

test('while another machine archives, the day waits', async () => {
  await store(Buffer.from('x'));
  await fresh.database.transaction(async (query) => {
    await query({ text: `select pg_advisory_xact_lock(${advisoryLocks.archive})` });
    expect(await drop()).toMatchObject({ partitions: [], unarchived: [] });
  });
  expect((await drop()).partitions).toContain(partition);
});

test('a stopping Weir gives up, and keeps the day', async () => {
  await store(Buffer.from('x'));
  const { unarchived } = await drop(archiveTo(archiveDir(), () => true));
  expect(unarchived).toContainEqual({ partition, reason: 'Weir is stopping' });
  expect(await archived()).not.toContain(file);
  expect((await drop()).partitions).toContain(partition);
});

test('an import creates missing days, and refuses what retention would remove', async () => {
  const id = await store(Buffer.from('x'));
  await drop();
  const refused = await weirOn(fresh.conninfo, 'event', 'import', join(archiveDir(), file));
  expect(refused).toMatchObject({ code: 0 });
  expect(await fresh.sql('select id from events')).toEqual([{ id }]);

  const old = {
    id: uuidText(uuidv7(nowMs - 40 * DAY_MS, randomBytes(16))),
    webhook_id: webhookId,
    source_ip: '192.0.2.1',
  };
  const line = {
    ...old,
    received_at: new Date(nowMs - 40 * DAY_MS).toISOString(),
    event_type: null,
    content_type: null,
    bytes: 1,
    headers: '',
    body: 'x',
  };
  const path = join(directory, 'old.ndjson');
  await writeFile(path, `${JSON.stringify(line)}\n`);
  await expectRefused(
    weirOn(fresh.conninfo, 'event', 'import', path),
    /line 1: retention would remove an event .*raise RETENTION_DAYS/,
  );
});

test('imported events that the retention of their webhook had removed are removed again by its next run', async () => {
  await store(Buffer.from('old'));
  await fresh.sql('update webhooks set retention_days = 2');
  const path = join(directory, 'export.ndjson');
  await writeFile(path, (await weirOn(fresh.conninfo, 'event', 'export')).out);
  const removed = async () => (await removeExpiredEvents(fresh.database, 30, nowMs)).events;
  expect(await removed()).toBe(1);
  const { out } = await weirOn(fresh.conninfo, 'event', 'import', path, '--json');
  expect(JSON.parse(out)).toMatchObject({ imported: 1 });
  expect(await removed()).toBe(1);
  expect(await rows()).toEqual([]);
});

test('an export with bodies can be imported', async () => {
  await store(Buffer.from('recent'), { headers: 'x-a: 1', atMs: nowMs });
  const before = await rows();
  const path = join(directory, 'export.ndjson');
  await writeFile(path, (await weirOn(fresh.conninfo, 'event', 'export')).out);
  await fresh.sql('delete from events');
  expect(JSON.parse((await weirOn(fresh.conninfo, 'event', 'import', path, '--json')).out)).toMatchObject({
    imported: 1,
  });
  expect(await rows()).toEqual(before);
});

test.each([
  ['that is not JSON', 'hello', /line 1 is not an archived event: it is not JSON/],
  ['with a wrong length', '{"bytes":7}', /bytes is not the length of the body/],
  [
    'with half of a surrogate pair in its body',
    '{"body":"\\ud800","bytes":3}',
    /body: has a character that is not Unicode/,
  ],
  ['with another time than its id', '{"received_at":"2026-01-01T00:00:00Z"}', /received_at is not the time in the id/],
  [
    'with a NUL in its type',
    '{"event_type":"a\\u0000b"}',
    /event_type: has a character that the database cannot store/,
  ],
  ['with half a surrogate pair', '{"content_type":"\\ud800"}', /content_type: has a character/],
  ['with a header in a header', '{"headers":{"a":"b\\nc: d"}}', /headers/],
  ['of another shape, nested deeply', '[[[['.repeat(50_000), /it is not JSON/],
  ['without a body', '{"body":null}', /body/],
  ['of a delivery', '{"id":"x"}', /id/],
])('a line %s is refused', async (_, change, reason) => {
  await store(Buffer.from('x'));
  await drop();
  const [line] = await linesOf(file);
  const path = join(directory, 'changed.ndjson');
  const text = change.startsWith('{') ? JSON.stringify({ ...line, ...(JSON.parse(change) as object) }) : change;
  await writeFile(path, `${text}\n`);
  await expectRefused(weirOn(fresh.conninfo, 'event', 'import', path), reason);
  expect(await rows()).toEqual([]);
});

test('a line with a body that is not base64 is refused', async () => {
  await store(Buffer.of(0xff));
  await drop();
  const [line] = (await linesOf(file)) as [{ body_base64: string }];
  const path = join(directory, 'changed.ndjson');
  await writeFile(path, JSON.stringify({ ...line, body_base64: `${line.body_base64}!!!!` }));
  await expectRefused(weirOn(fresh.conninfo, 'event', 'import', path), 'body_base64 is not base64');
});

test('a compressed file that is cut off, and one that does not exist, are refused', async () => {
  await store(randomBytes(50_000));
  await drop();
  await truncate(join(archiveDir(), file), 20_000);
  await expectRefused(restoreDay(), 'cannot be read: unexpected end of file');
  await expectRefused(restoreDay('none.ndjson'), 'ENOENT');
});

test('a symbolic link in ARCHIVE_DIR is not followed', async () => {
  await store(Buffer.from('x'));
  const other = join(directory, 'other');
  await writeFile(other, 'kept');
  await symlink(other, join(archiveDir(), `${partition}.unfinished`));
  expect((await drop()).unarchived).toEqual([]);
  expect(await readFile(other, 'utf8')).toBe('kept');
  expect(await linesOf(file)).toHaveLength(1);
});

test('a compressed line of any length is refused before it is in memory', async () => {
  const path = join(directory, 'bomb.ndjson.gz');
  const gzip = createGzip({ level: 1 });
  const written = pipeline(gzip, createWriteStream(path));
  const part = Buffer.alloc(1_048_576, 'a');
  for (let written = 0; written < 300; written++) if (!gzip.write(part)) await once(gzip, 'drain');
  gzip.end();
  await written;
  await expectRefused(weirOn(fresh.conninfo, 'event', 'import', path), /line 1 is longer than 268435456 bytes/);
});
