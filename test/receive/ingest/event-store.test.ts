import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { inetBytes } from '../../../server/model/address.ts';
import { EventStore } from '../../../server/receive/ingest/cell-stores.ts';
import type { EventRow } from '../../../server/store/copy/rows.ts';
import { uuidText, uuidv7 } from '../../../server/store/ids.ts';
import { storeEvents } from '../../helpers/event-store.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const fresh = shared(freshDatabase);
let events: EventStore;
/** Events of each commit, in the order of completion. */
let commits: number[];
/** Duplicates of each commit that had some. */
let repeats: number[];
let doubts: number;
/** Rows of each refused commit that was not split further. */
let refusals: number[];

const openStore = (spools = false) =>
  new EventStore({
    conninfo: fresh.conninfo,
    commitTimeoutMs: 10_000,
    database: fresh.database,
    retentionDays: 30,
    queueEventsMax: 20_000,
    commitEventsMax: 2_000,
    spools,
    observer: {
      committed: (count) => commits.push(count),
      repeated: (count) => repeats.push(count),
      connection: () => {},
      inDoubt: () => doubts++,
      refused: (rows) => refusals.push(rows.length),
    },
  });

beforeAll(async () => {
  events = openStore();
  await events.start();
});
beforeEach(() => {
  commits = [];
  repeats = [];
  doubts = 0;
  refusals = [];
});
afterAll(async () => {
  events.close();
});

const webhookId = uuidv7(Date.now(), randomBytes(16));

function newRow(): EventRow {
  const receivedAtMs = Date.now();
  const id = uuidv7(receivedAtMs, randomBytes(16));
  const body = Buffer.from(`{"id":"${uuidText(id)}"}`);
  return {
    id,
    webhookId,
    receivedAtMs,
    sourceIp: inetBytes('192.0.2.1'),
    headers: Buffer.from('a: b'),
    body,
    ...{ contentType: null, eventType: null, orderKeys: null, key: null },
  };
}

/** An advisory lock of this test. */
const DOUBT_LOCK = 4711;
const newKey = () => randomBytes(32);

const store = (rows: EventRow[], keys?: Uint8Array[]) =>
  storeEvents(
    events,
    rows.map((row, i) => ({ ...row, key: keys?.[i] ?? null })),
  );

/** Stores one event. Returns its id, or null if it was not stored. */
async function add(): Promise<string | null> {
  const row = newRow();
  return (await store([row])).kind === 'stored' ? uuidText(row.id) : null;
}

async function storedIds(): Promise<Set<string>> {
  const rows = await fresh.sql<{ id: string }>('select id from events');
  return new Set(rows.map(({ id }) => id));
}

test('a few events are one commit; of many, one connection takes half and the other commits beside it', async () => {
  await Promise.all(Array.from({ length: 64 }, add));
  expect(commits).toEqual([64]);
  commits = [];
  await Promise.all(Array.from({ length: 400 }, add));
  expect(commits[0]).toBe(200);
  expect(commits.reduce((sum, count) => sum + count, 0)).toBe(400);
});

test('a lost connection loses only its own batch: the other one commits the waiting events', async () => {
  const outcomes: (string | null)[] = [];
  let stopped = false;
  const sender = async () => {
    while (!stopped) {
      const id = await add();
      outcomes.push(id);
      if (id === null) await delay(10);
    }
  };
  const senders = Promise.all(Array.from({ length: 300 }, sender));
  // While none is lost, none is in doubt.
  await until(() => outcomes.length > 1000);
  expect([outcomes.includes(null), doubts]).toEqual([false, 0]);
  for (let round = 0; round < 3; round++) {
    await until(async () => (await copyConnections()).length === 2);
    const before = outcomes.length;
    await until(() => outcomes.length > before + 1000);
    const [pid] = await copyConnections();
    await fresh.sql('select pg_terminate_backend($1)', pid);
    expect(events.available).toBe(true);
  }
  stopped = true;
  await senders;
  const stored = await storedIds();
  const committed = outcomes.filter((id) => id !== null);
  expect(committed.filter((id) => !stored.has(id))).toEqual([]);
  // No round refused more than the batch in progress on the connection.
  expect(outcomes.length - committed.length).toBeLessThanOrEqual(3 * 300);
});

test.each([
  ['without a spool, are looked up', false, 1],
  ['with a spool, are not looked up, because they are spooled', true, 0],
])('events in doubt that are not stored are answered so: %s', async (_, spools, lookUps) => {
  const own = openStore(spools);
  await own.start();
  const run = (text: string) => fresh.sql(text);
  // A COPY has sent everything, and its commit waits.
  await run(`create function wait_here() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock_shared(${DOUBT_LOCK}); return null; end $$;
    create trigger wait_here after insert on events for each statement execute function wait_here()`);
  const waiting = `select pid from pg_locks where locktype = 'advisory' and objid = ${DOUBT_LOCK} and not granted`;
  const outcome = await fresh.database.transaction(async (query) => {
    await query({ text: `select pg_advisory_xact_lock(${DOUBT_LOCK})` });
    const adding = storeEvents(own, [newRow()]);
    const [blocked] = await until(async () => {
      const rows = await query<{ pid: number }>({ text: waiting });
      return rows.length > 0 && rows;
    });
    await query({ text: 'select pg_terminate_backend($1)', values: [blocked!.pid] });
    return await adding;
  });
  await run('drop trigger wait_here on events; drop function wait_here');
  expect(outcome.kind).toBe('unavailable');
  expect(doubts).toBe(lookUps);
  own.close();
  await until(async () => (await copyConnections()).length === 2);
});

test('a key of two webhooks in one commit is two events, and of one webhook one event', async () => {
  const other = uuidv7(Date.now(), randomBytes(16));
  const [key, rows] = [newKey(), [newRow(), { ...newRow(), webhookId: other }, newRow()]];
  const [first, second, third] = await Promise.all(rows.map((row) => store([row], [key])));
  expect([first, second]).toEqual([
    { kind: 'stored', duplicates: new Map() },
    { kind: 'stored', duplicates: new Map() },
  ]);
  expect(third).toEqual({ kind: 'stored', duplicates: new Map([[0, uuidText(rows[0]!.id)]]) });
  expect([commits, repeats]).toEqual([[2], [1]]);
});

test.each(['COPY', 'the statement for keys'])(
  'a request that %s refuses does not fail others of its batch',
  async (way) => {
    const keys = () => (way === 'COPY' ? undefined : [newKey()]);
    const rows = Array.from({ length: 20 }, newRow);
    rows[13]!.contentType = 'no\0text';
    const outcomes = await Promise.all(rows.map((row) => store([row], keys())));
    expect(outcomes.map(({ kind }) => kind)).toEqual(rows.map((_, i) => (i === 13 ? 'refused' : 'stored')));
    expect(refusals).toEqual([1]);
    const stored = await storedIds();
    expect(rows.map(({ id }) => stored.has(uuidText(id)))).toEqual(rows.map((_, i) => i !== 13));
  },
);

test('rows with an existing key are duplicates of its event, within a batch and after it', async () => {
  const [key, otherKey] = [newKey(), newKey()];
  const rows = Array.from({ length: 4 }, newRow);
  const first = uuidText(rows[0]!.id);
  const together = await Promise.all([store([rows[0]!], [key]), store([rows[1]!], [key])]);
  expect(together).toEqual([
    { kind: 'stored', duplicates: new Map() },
    { kind: 'stored', duplicates: new Map([[0, first]]) },
  ]);
  expect(commits).toEqual([1]);
  const later = await store([rows[2]!, rows[3]!], [otherKey, key]);
  expect(later).toEqual({ kind: 'stored', duplicates: new Map([[1, first]]) });
  expect(repeats).toEqual([1, 1]);
  const stored = await storedIds();
  expect(rows.map(({ id }) => stored.has(uuidText(id)))).toEqual([true, false, true, false]);
});

async function copyConnections(): Promise<number[]> {
  const rows = await fresh.sql<{ pid: number }>(
    `select pid from pg_stat_activity where application_name = 'weir-copy' and datname = current_database()`,
  );
  return rows.map(({ pid }) => pid);
}
