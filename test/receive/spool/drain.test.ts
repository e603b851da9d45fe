import { randomBytes } from 'node:crypto';
import { readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { EventStore } from '../../../server/receive/ingest/cell-stores.ts';
import { realDisk } from '../../../server/receive/spool/disk.ts';
import { Drain } from '../../../server/receive/spool/drain.ts';
import { parseName, stemOfEvent } from '../../../server/receive/spool/names.ts';
import { readFrame, readHead } from '../../../server/receive/spool/read-segment.ts';
import { encodeFrame, frameMark, sealFrame } from '../../../server/receive/spool/segment.ts';
import { addCounts, type DrainCounts, type SpoolStore } from '../../../server/receive/spool/store.ts';
import { SpoolWriter } from '../../../server/receive/spool/writer.ts';
import type { EventRow } from '../../../server/store/copy/rows.ts';
import { storeEvents } from '../../helpers/event-store.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { idOf, newRow, openSpoolStore, storedIds, webhookId } from './events.ts';

const fresh = shared(freshDatabase);
let store: SpoolStore;
let folder: string;
let counts: DrainCounts;
let refused: string[];
let damaged: string[];
let drain: Drain;
/** Called before each transaction of the drain. */
let onStore: () => void;
let writer: SpoolWriter;

beforeEach(async () => {
  await fresh.sql('truncate events; truncate dedupe_keys');
  folder = temporaryDirectory();
  counts = { stored: 0, duplicates: 0, known: 0, webhookDeleted: 0 };
  [refused, damaged] = [[], []];
  onStore = () => {};
  store = openSpoolStore(fresh);
  drain = new Drain({
    disk: realDisk,
    folder,
    target: {
      connect: () => store.connect(),
      createPartitions: (columns, frame) => store.createPartitions(columns, frame),
      store(columns, frame) {
        onStore();
        return store.store(columns, frame);
      },
    },
    observer: {
      committed: (more) => addCounts(counts, more),
      refused: (sqlState) => refused.push(sqlState),
      damaged: (name) => damaged.push(name),
    },
  });
  writer = openWriter();
});
afterEach(async () => {
  store.close();
  await writer.close();
});

function openWriter(): SpoolWriter {
  return new SpoolWriter({
    disk: realDisk,
    folder,
    bytesMax: 67_108_864,
    ageMaxMs: 3_600_000,
    writers: () => 1,
    nowMs: Date.now,
    onFailed: (error) => {
      throw error;
    },
  });
}

async function spool(...rows: EventRow[]): Promise<EventRow[]> {
  expect(await writer.append(rows)).toBe(null);
  return rows;
}

const rowsOf = (count: number) => Array.from({ length: count }, () => newRow());
const sorted = (rows: readonly EventRow[]) => rows.map(idOf).sort();
const key = () => randomBytes(32);

test('events are stored as they were received, and the files are removed', async () => {
  const rows = await spool(
    newRow({
      contentType: 'text/plain',
      eventType: 'push',
      headers: Buffer.from('x: ü'),
      orderKeys: [1n, -(2n ** 63n)],
      body: Buffer.from([0, 255, 1]),
    }),
    newRow({ body: Buffer.alloc(0), receivedAtMs: Date.now() - 3_600_000 }),
  );
  await spool(...rowsOf(500));
  expect(await drain.run()).toEqual({ kind: 'empty' });
  expect(await readdir(folder)).toEqual([]);
  expect(counts).toEqual({ stored: 502, duplicates: 0, known: 0, webhookDeleted: 502 });
  const [found] = await fresh.sql<Record<string, unknown>>(
    `select webhook_id = $2 as webhook, received_at, host(source_ip) as ip, convert_from(headers, 'UTF8') as headers,
             content_type, event_type, encode(body, 'hex') as body, bytes, order_keys::text as keys from events where id = $1`,
    idOf(rows[0]!),
    Buffer.from(webhookId).toString('hex'),
  );
  expect(found).toEqual({
    webhook: true,
    received_at: new Date(rows[0]!.receivedAtMs),
    ip: '192.0.2.1',
    keys: '{1,-9223372036854775808}',
    headers: 'x: ü',
    content_type: 'text/plain',
    event_type: 'push',
    body: '00ff01',
    bytes: 3,
  });
});

test('events that are in the database already are skipped by their ids, and so is a second drain of the same file', async () => {
  const rows = await spool(...rowsOf(5), newRow({ key: key() }));
  const name = (await readdir(folder))[0]!;
  const bytes = await readFile(join(folder, name));
  await drain.run();
  await writeFile(join(folder, name.replace('open', 'draining')), bytes);
  await drain.run();
  expect(counts).toMatchObject({ stored: 6, known: 6, duplicates: 0 });
  expect(await storedIds(fresh.database)).toEqual(sorted(rows));
});

test('of events with one key the first is stored, whichever way they come', async () => {
  const events = new EventStore({
    conninfo: fresh.conninfo,
    commitTimeoutMs: 10_000,
    database: fresh.database,
    retentionDays: 30,
    queueEventsMax: 100,
    commitEventsMax: 100,
    observer: { committed() {}, repeated() {}, connection() {}, inDoubt() {}, refused() {} },
  });
  await events.start();
  const keys = [key(), key(), key()];
  const nowMs = Date.now();
  // Two in the spool; one stored before and one after it.
  const [later, first] = await spool(
    newRow({ key: keys[0]!, receivedAtMs: nowMs }),
    newRow({ key: keys[0]!, receivedAtMs: nowMs - 5 }),
  );
  const direct = newRow();
  await storeEvents(events, [{ ...direct, key: keys[1]! }]);
  await spool(newRow({ key: keys[1]! }));
  const [spooled] = await spool(newRow({ key: keys[2]! }));
  await drain.run();
  const after = newRow();
  expect(await storeEvents(events, [{ ...after, key: keys[2]! }])).toEqual({
    kind: 'stored',
    duplicates: new Map([[0, idOf(spooled!)]]),
  });
  events.close();
  expect(await storedIds(fresh.database)).toEqual(sorted([first!, direct, spooled!]));
  expect(idOf(later!)).not.toBe(idOf(first!));
  expect(counts).toMatchObject({ stored: 2, duplicates: 2 });
});

test('an expired key is replaced, and the key of a new event lives as long as its webhook keeps events', async () => {
  const [expired, short] = [key(), key()];
  const id = Buffer.from(webhookId).toString('hex');
  const run = (text: string, ...values: unknown[]) => fresh.sql(text, ...values);
  await run(
    `insert into webhooks (id, name, retention_days, events_removed_before) values ($1, 'w', 2, now() - interval '2 days')`,
    id,
  );
  await run(`insert into dedupe_keys values ($1, $2, gen_random_uuid(), now() - interval '1 s')`, id, expired);
  const rows = await spool(newRow({ key: expired }), newRow({ key: short }));
  await drain.run();
  expect(await storedIds(fresh.database)).toEqual(sorted(rows));
  expect(counts).toMatchObject({ stored: 2, webhookDeleted: 0 });
  const [{ days }] = (await run(
    `select round(extract(epoch from min(expires_at) - now()) / 86400) as days from dedupe_keys`,
  )) as [{ days: string }];
  expect(Number(days)).toBe(2);
});

test('an event of a deleted webhook is stored and counted, and one older than the mark of retention moves the mark back', async () => {
  const old = newRow({ receivedAtMs: Date.now() - 40 * 86_400_000 });
  const text = `update webhooks set deleted_at = now(), events_removed_before = now() where name = 'w' returning id`;
  await fresh.sql(text);
  await spool(newRow(), old);
  await drain.run();
  expect(counts).toMatchObject({ stored: 2, webhookDeleted: 2 });
  const [mark] = await fresh.sql<{ at: Date }>('select events_removed_before as at from webhooks');
  expect(mark!.at).toEqual(new Date(old.receivedAtMs));
});

test('a missing partition is created', async () => {
  const days = [-45, -44, 60].map((day) => newRow({ receivedAtMs: Date.now() + day * 86_400_000 }));
  await spool(...days, ...rowsOf(3));
  expect(await drain.run()).toEqual({ kind: 'empty' });
  expect(counts.stored).toBe(6);
});

test('events that the database refuses are moved to a file of their own, the others are stored', async () => {
  const rows = rowsOf(40);
  for (const i of [0, 13, 39]) rows[i] = newRow({ contentType: 'no\0text' });
  await spool(...rows);
  expect(await drain.run()).toEqual({ kind: 'empty' });
  expect(counts.stored).toBe(37);
  expect(refused).toEqual(['22021', '22021', '22021']);
  const names = await readdir(folder);
  expect(names.map((name) => name.split('.')[1])).toEqual(['refused', 'refused', 'refused']);
  const file = await realDisk.open(join(folder, names[0]!));
  const head = (await readHead(file))!;
  expect(await readFrame(file, head, head.next)).toMatchObject({ kind: 'frame', frame: { events: 1 } });
  await file.close();
});

test('an event that the database refuses is kept once when its chunk is repeated, also after a drain was killed', async () => {
  const bad = newRow({ contentType: 'no\0text' });
  const rows = await spool(bad, newRow());
  const stem = stemOfEvent(Buffer.from(bad.id));
  await writeFile(join(folder, `${stem}.draft`), 'an incomplete file');
  let transactions = 0;
  onStore = () => {
    if (++transactions === 3) throw new Error('interrupted');
  };
  await expect(drain.run()).rejects.toThrow('interrupted');
  expect(await drain.run()).toEqual({ kind: 'empty' });
  expect([refused, await readdir(folder)]).toEqual([['22021'], [`${stem}.refused`]]);
  expect(parseName(`${stem}.refused`)).toMatchObject({ createdMs: bad.receivedAtMs, state: 'refused' });
  expect(await storedIds(fresh.database)).toEqual([idOf(rows[1]!)]);
});

test('a torn end is dropped with its file; a file damaged inside is kept, and its good frames are stored', async () => {
  const [first] = await spool(newRow());
  const torn = await spool(newRow());
  const name = (await readdir(folder))[0]!;
  const { length } = await readFile(join(folder, name));
  await truncate(join(folder, name), length - 1);
  await drain.run();
  expect([await storedIds(fresh.database), damaged, await readdir(folder)]).toEqual([sorted([first!]), [], []]);
  expect(torn).toHaveLength(1);

  await spool(newRow());
  const [, good] = [await spool(newRow()), await spool(newRow())];
  const [second] = await readdir(folder);
  const bytes = await readFile(join(folder, second!));
  bytes[bytes.length - 300]! ^= 1;
  await writeFile(join(folder, second!), bytes);
  counts.stored = 0;
  await drain.run();
  expect(counts.stored).toBe(2);
  expect(damaged).toEqual([second!.replace('open', 'damaged')]);
  expect(await readdir(folder)).toEqual(damaged);
  expect(await storedIds(fresh.database)).toContain(idOf(good[0]!));
  // The file is not drained again.
  expect(await drain.run()).toEqual({ kind: 'empty' });
});

test('while the database is away nothing is taken, and afterwards the drain continues', async () => {
  const rows = await spool(...rowsOf(3));
  await fresh.cutOff();
  const [before] = await readdir(folder);
  expect(await drain.run()).toMatchObject({
    kind: 'unavailable',
    reason: expect.stringContaining('not currently accepting'),
  });
  expect(await readdir(folder)).toEqual([before]);
  await fresh.restore();
  expect(await drain.run()).toEqual({ kind: 'empty' });
  expect(await storedIds(fresh.database)).toEqual(sorted(rows));
});

test('a connection that is lost during a transaction is used no more, and the file is drained again', async () => {
  const rows = await spool(...rowsOf(3));
  await store.connect();
  await fresh.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir-spool' and datname = current_database()`,
  );
  const outcome = await drain.run();
  expect(['unavailable', 'empty']).toContain(outcome.kind);
  expect(await drain.run()).toEqual({ kind: 'empty' });
  expect(await storedIds(fresh.database)).toEqual(sorted(rows));
});

test('a writer continues while its file is drained', async () => {
  const rows: EventRow[] = [];
  let draining = true;
  const drained = (async () => {
    while (draining) await drain.run();
  })();
  for (let turn = 0; turn < 60; turn++) rows.push(...(await spool(...rowsOf(3))));
  draining = false;
  await drained;
  await drain.run();
  expect(await storedIds(fresh.database)).toEqual(sorted(rows));
});

test('files of other names are left alone', async () => {
  await writeFile(join(folder, 'notes.txt'), 'x');
  expect(await drain.run()).toEqual({ kind: 'empty' });
  expect(await readdir(folder)).toEqual(['notes.txt']);
});

test('a body that holds frames becomes no event when its own frame is torn', async () => {
  const forged = newRow();
  const body = Buffer.concat([sealFrame(encodeFrame([forged]), 1, frameMark()), randomBytes(100)]);
  const [first] = await spool(newRow());
  await spool(newRow({ body }));
  const name = (await readdir(folder))[0]!;
  await truncate(join(folder, name), (await readFile(join(folder, name))).length - 1);
  expect(await drain.run()).toEqual({ kind: 'empty' });
  expect(await storedIds(fresh.database)).toEqual(sorted([first!]));
  expect([damaged, await readdir(folder)]).toEqual([[], []]);
});

test('a damaged file is kept also when its drain was interrupted behind the damage', async () => {
  await spool(newRow());
  const rows = [...(await spool(...rowsOf(4_000))), ...(await spool(newRow()))];
  const [name] = await readdir(folder);
  const bytes = await readFile(join(folder, name!));
  bytes[(await headBytes(name!)) + 60]! ^= 1;
  await writeFile(join(folder, name!), bytes);
  let transactions = 0;
  onStore = () => {
    if (++transactions === 2) throw new Error('interrupted');
  };
  await expect(drain.run()).rejects.toThrow('interrupted');
  expect(await drain.run()).toEqual({ kind: 'empty' });
  expect(await storedIds(fresh.database)).toEqual(sorted(rows));
  expect(damaged).toEqual([name!.replace('open', 'damaged')]);
});

async function headBytes(name: string): Promise<number> {
  const file = await realDisk.open(join(folder, name));
  const head = await readHead(file);
  await file.close();
  return head!.next;
}
