/** Verification of the audit log after changes outside Weir by a superuser. */
import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createLog } from '../../../server/base/telemetry/log.ts';
import { anchorAudit } from '../../../server/operate/primary/maintenance.ts';
import { systemActor } from '../../../server/store/audit/actor.ts';
import { chainHash, record } from '../../../server/store/audit/record.ts';
import { verifyAudit } from '../../../server/store/audit/verify.ts';
import type { Database } from '../../../server/store/connect/pool.ts';
import { readAuditHead } from '../../../server/store/queries/users/audit.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { shared } from '../../helpers/shared.ts';

const fresh = shared(freshDatabase);
let database: Database;
beforeAll(async () => {
  database = fresh.database;
});

const write = (name: string) =>
  database.transaction((query) =>
    record(query, systemActor, {
      action: 'webhook.create',
      target: { kind: 'webhook', id: randomUUID(), name },
      after: { name, note: 'Grüße, "日本" \\ 😀  spaces   kept' },
    }),
  );

/** As a superuser, with the trigger disabled. */
const tamper = (sql: string) =>
  database.query({
    text: `begin; alter table audit_log disable trigger audit_log_append_only; ${sql};
           alter table audit_log enable trigger audit_log_append_only; commit`,
  });

const ENTRIES = 6;
let head: string;
beforeEach(async () => {
  await tamper('truncate audit_log');
  for (let i = 1; i <= ENTRIES; i++) await write(`number ${i}`);
  head = (await readAuditHead(database))!.hash;
});

const textOf = async (number: number): Promise<{ text: string; previous_hash: Buffer }> => {
  const [row] = await database.query<{ text: string; previous_hash: Buffer }>({
    text: 'select entry::text as text, previous_hash from audit_log where audit_log.number = $1',
    values: [number],
  });
  return row!;
};

/** Replaces an entry with another one that has a matching hash. */
async function rehash(number: number, change: (text: string) => string): Promise<void> {
  const { text, previous_hash } = await textOf(number);
  const changed = change(text);
  const hash = chainHash(previous_hash, changed).toString('hex');
  await tamper(`update audit_log set entry = '${changed}', hash = '\\x${hash}' where number = ${number}`);
}

/** Rewrites the chain from an entry on, with correct hashes. */
async function rewriteFrom(number: number): Promise<void> {
  await rehash(number, (text) => text.replace('number', 'NUMBER'));
  for (let each = number + 1; each <= ENTRIES; each++) {
    await tamper(
      `update audit_log a set previous_hash = b.hash, hash = sha256(b.hash || convert_to(a.entry::text, 'UTF8'))
       from audit_log b where a.number = ${each} and b.number = ${each - 1}`,
    );
  }
}

test('an unchanged log verifies, and its head is returned', async () => {
  const verdict = { intact: true, entries: ENTRIES, head: { number: ENTRIES, hash: head } };
  expect(await verifyAudit(database, null)).toEqual(verdict);
  expect(await verifyAudit(database, head)).toEqual(verdict);
});

test('an empty log verifies, unless a head is given', async () => {
  await tamper('truncate audit_log');
  expect(await verifyAudit(database, null)).toEqual({ intact: true, entries: 0, head: null });
  expect(await verifyAudit(database, head)).toMatchObject({ intact: false, entries: 0, head: null });
});

test('entries after a known head do not affect its verification', async () => {
  await write('later');
  expect(await verifyAudit(database, head)).toMatchObject({ intact: true, entries: ENTRIES + 1 });
});

describe('a manipulation is found with its position:', () => {
  test.each<[string, number, RegExp, () => Promise<unknown>]>([
    [
      'a changed name',
      3,
      /Entry 3 was changed/,
      () => tamper(`update audit_log set entry = replace(entry::text, 'number 3', 'number 4')::json where number = 3`),
    ],
    [
      'a changed action',
      2,
      /Entry 2 was changed/,
      () =>
        tamper(
          `update audit_log set entry = replace(entry::text, 'webhook.create', 'webhook.delete')::json where number = 2`,
        ),
    ],
    [
      'a blank more between members',
      4,
      /Entry 4 was changed/,
      () => tamper(`update audit_log set entry = replace(entry::text, '{"at":', '{ "at":')::json where number = 4`),
    ],
    [
      'a changed hash',
      5,
      /Entry 5 was changed/,
      () => tamper(`update audit_log set hash = sha256('x') where number = 5`),
    ],
    [
      'the hash of the head changed',
      6,
      /Entry 6 was changed/,
      () => tamper(`update audit_log set hash = sha256('x') where number = 6`),
    ],
    [
      'a changed link',
      5,
      /Entry 5 does not follow/,
      () => tamper(`update audit_log set previous_hash = sha256('x') where number = 5`),
    ],
    [
      'the first entry changed',
      1,
      /Entry 1 was changed/,
      () => tamper(`update audit_log set entry = '{}' where number = 1`),
    ],
    [
      'a first entry that follows something',
      1,
      /Entry 1 does not follow/,
      () => tamper(`update audit_log set previous_hash = sha256('x') where number = 1`),
    ],
    ['a removed entry', 3, /Entry 3 is missing/, () => tamper('delete from audit_log where number = 3')],
    ['the first entry removed', 1, /Entry 1 is missing/, () => tamper('delete from audit_log where number = 1')],
    [
      'a removed entry, the later ones moved up',
      3,
      /Entry 3 does not follow/,
      () =>
        tamper(
          'delete from audit_log where number = 3; update audit_log set number = number + 100 where number > 3; update audit_log set number = number - 101 where number > 100',
        ),
    ],
    [
      'two entries that changed places',
      2,
      /Entry 2 does not follow/,
      () =>
        tamper(
          'update audit_log set number = 100 where number = 2; update audit_log set number = 2 where number = 3; update audit_log set number = 3 where number = 100',
        ),
    ],
    [
      'contents that changed places',
      2,
      /Entry 2 was changed/,
      () =>
        tamper(
          'update audit_log a set entry = b.entry from audit_log b where (a.number, b.number) in ((2, 3), (3, 2))',
        ),
    ],
    [
      'an inserted entry',
      4,
      /Entry 4 does not follow/,
      () =>
        tamper(
          `update audit_log set number = number + 100 where number >= 3; insert into audit_log select 3, entry, sha256(hash || convert_to(entry::text, 'UTF8')), hash from audit_log where number = 2; update audit_log set number = number - 99 where number > 100`,
        ),
    ],
    [
      'an entry appended without a link',
      7,
      /Entry 7 does not follow/,
      () =>
        database.query({
          text: `insert into audit_log select 7, entry, hash, previous_hash from audit_log where number = 6`,
        }),
    ],
    [
      'an entry appended with a gap',
      7,
      /Entry 7 is missing/,
      () =>
        database.query({
          text: `insert into audit_log select 8, entry, sha256(hash || convert_to(entry::text, 'UTF8')), hash from audit_log where number = 6`,
        }),
    ],
    [
      'one entry rewritten with a matching hash',
      4,
      /Entry 4 does not follow/,
      () => rehash(3, (text) => text.replace('number 3', 'number 9')),
    ],
  ])('%s', async (_what, number, reason, change) => {
    await change();
    const verdict = await verifyAudit(database, null);
    expect(verdict).toMatchObject({ intact: false, entries: number - 1, first_broken: number });
    expect(verdict.reason).toMatch(reason);
    expect(verdict.head?.number ?? 0).toBe(number - 1);
  });
});

describe('a manipulation is found by a head stored elsewhere:', () => {
  test.each<[string, number, () => Promise<unknown>]>([
    ['the end cut off', 4, () => tamper('delete from audit_log where number > 4')],
    ['the last entry cut off', 5, () => tamper('delete from audit_log where number > 5')],
    ['the last entry rewritten', 6, () => rewriteFrom(6)],
    ['all entries rewritten from one on', 6, () => rewriteFrom(2)],
  ])('%s', async (_what, entries, change) => {
    await change();
    expect(await verifyAudit(database, null)).toMatchObject({ intact: true, entries });
    const verdict = await verifyAudit(database, head);
    expect(verdict).toMatchObject({ intact: false, entries, reason: expect.stringMatching(/given head/) });
    expect(verdict.first_broken).toBeUndefined();
  });
});

test.each([
  ['update', `update audit_log set entry = '{}'`],
  ['delete', 'delete from audit_log'],
  ['truncate', 'truncate audit_log'],
  ['delete of nothing', 'delete from audit_log where false'],
  [
    'upsert',
    `insert into audit_log select number, entry, hash, previous_hash from audit_log on conflict (number) do update set hash = excluded.hash`,
  ],
])('%s is refused by the trigger', async (_what, text) => {
  await expect(database.query({ text })).rejects.toThrow('audit_log is append-only');
  expect(await verifyAudit(database, head)).toMatchObject({ intact: true });
});

test('a long log is read in pages', async () => {
  await database.query({
    text: `insert into audit_log (number, entry, hash, previous_hash)
           with recursive more as (
             select number, entry::text as entry, hash, previous_hash from audit_log where number = ${ENTRIES}
             union all
             select m.number + 1, e.entry, sha256(m.hash || convert_to(e.entry, 'UTF8')), m.hash
             from more m, lateral (select '{"at":"x","n":' || m.number || '}' as entry) e where m.number < 2600
           ) select number, entry::json, hash, previous_hash from more where number > ${ENTRIES}`,
  });
  expect(await verifyAudit(database, head)).toMatchObject({ intact: true, entries: 2600 });
  await tamper('delete from audit_log where number = 2000');
  expect(await verifyAudit(database, head)).toMatchObject({ intact: false, first_broken: 2000 });
});

test('a new head is logged once, and covers the entries up to it', async () => {
  const lines: string[] = [];
  const log = createLog({ write: (line) => lines.push(line), flush: () => {}, dropped: () => 0 }, 'info', {});
  const said = await anchorAudit(database, log, null);
  expect(await anchorAudit(database, log, said)).toBe(said);
  await write('one more');
  await anchorAudit(database, log, said);
  const anchors = lines.map((line) => JSON.parse(line));
  expect(anchors).toMatchObject([
    { level: 30, event: 'audit_head', number: ENTRIES, hash: head },
    { event: 'audit_head', number: ENTRIES + 1 },
  ]);
  await tamper(`delete from audit_log where number > ${ENTRIES}`);
  expect(await verifyAudit(database, anchors[0].hash)).toMatchObject({ intact: true });
  expect(await verifyAudit(database, anchors[1].hash)).toMatchObject({ intact: false });
});

test('an empty log has no head to log', async () => {
  await tamper('truncate audit_log');
  const lines: string[] = [];
  const log = createLog({ write: (line) => lines.push(line), flush: () => {}, dropped: () => 0 }, 'info', {});
  expect(await anchorAudit(database, log, null)).toBeNull();
  expect(lines).toEqual([]);
});
