import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { EventRow } from '../../server/db/copy-rows.ts';
import { uuidText, uuidv7 } from '../../server/db/ids.ts';
import { EventWriter } from '../../server/ingest/persist.ts';
import { inetBytes } from '../../server/net/address.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { until } from '../helpers/wait.ts';

let fresh: FreshDatabase;
let writer: EventWriter;
/** Events of each commit, in the order in which they ended. */
let commits: number[];
let doubts: number;

beforeAll(async () => {
  fresh = await freshDatabase();
  writer = new EventWriter({
    conninfo: fresh.conninfo,
    commitTimeoutMs: 10_000,
    queueEventsMax: 20_000,
    commitEventsMax: 2_000,
    observer: {
      committed: (events) => commits.push(events),
      connection: () => {},
      inDoubt: () => doubts++,
      refused: () => {},
    },
  });
  await writer.start();
});
beforeEach(() => {
  commits = [];
  doubts = 0;
});
afterAll(async () => {
  writer.close();
  await fresh.drop();
});

const webhookId = uuidv7(Date.now(), randomBytes(16));

function newRow(): EventRow {
  const receivedAtMs = Date.now();
  const id = uuidv7(receivedAtMs, randomBytes(16));
  const body = Buffer.from(`{"id":"${uuidText(id)}"}`);
  return { id, webhookId, receivedAtMs, sourceIp: inetBytes('192.0.2.1'), headers: '', contentType: null, body };
}

/** Adds one event; its id when it was committed. */
async function add(): Promise<string | null> {
  const row = newRow();
  return (await writer.add(row)).kind === 'committed' ? uuidText(row.id) : null;
}

async function storedIds(): Promise<Set<string>> {
  const rows = await fresh.database.query<{ id: string }>({ text: 'select id from events' });
  return new Set(rows.map(({ id }) => id));
}

test('a few events are one commit, of many one takes half, and the other connection commits beside it', async () => {
  await Promise.all(Array.from({ length: 64 }, add));
  expect(commits).toEqual([64]);
  commits = [];
  await Promise.all(Array.from({ length: 400 }, add));
  expect(commits[0]).toBe(200);
  expect(commits.reduce((sum, events) => sum + events, 0)).toBe(400);
});

test('three hundred that each wait for their commit are committed once each, and none is ever in doubt', async () => {
  const committed: (string | null)[] = [];
  const sender = async () => {
    for (let turn = 0; turn < 20; turn++) committed.push(await add());
  };
  await Promise.all(Array.from({ length: 300 }, sender));
  const stored = await storedIds();
  expect(committed.filter((id) => id === null || !stored.has(id))).toEqual([]);
  expect(new Set(committed).size).toBe(6_000);
  expect(commits.reduce((sum, events) => sum + events, 0)).toBe(6_000);
  expect(doubts).toBe(0);
});

test('a connection that is lost takes only its own batch along: the other one commits what waits', async () => {
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
  for (let round = 0; round < 3; round++) {
    await until(async () => (await copyConnections()).length === 2);
    const before = outcomes.length;
    await until(() => outcomes.length > before + 1000);
    const [pid] = await copyConnections();
    await fresh.database.query({ text: 'select pg_terminate_backend($1)', values: [pid] });
    expect(writer.available).toBe(true);
  }
  stopped = true;
  await senders;
  const stored = await storedIds();
  const committed = outcomes.filter((id) => id !== null);
  expect(committed.filter((id) => !stored.has(id))).toEqual([]);
  // No round refused more than the batch that was under way on the connection.
  expect(outcomes.length - committed.length).toBeLessThanOrEqual(3 * 300);
});

async function copyConnections(): Promise<number[]> {
  const rows = await fresh.database.query<{ pid: number }>({
    text: `select pid from pg_stat_activity where application_name = 'weir-copy' and datname = current_database()`,
  });
  return rows.map(({ pid }) => pid);
}
