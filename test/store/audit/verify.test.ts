/** Verification of the audit log after changes outside Weir by a superuser. */
import { randomUUID } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { createLog } from '../../../server/base/telemetry/log.ts';
import { anchorAudit } from '../../../server/operate/primary/maintenance.ts';
import { record, systemActor } from '../../../server/store/audit/record.ts';
import { verifyAudit } from '../../../server/store/audit/verify.ts';
import { readAuditHead } from '../../../server/store/queries/users/audit.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { shared } from '../../helpers/shared.ts';

const fresh = shared(freshDatabase);

const write = (name: string) =>
  fresh.database.transaction((query) =>
    record(query, systemActor, {
      action: 'webhook.create',
      target: { kind: 'webhook', id: randomUUID(), name },
      after: { name, note: 'Grüße, "日本" \\ 😀  spaces   kept' },
    }),
  );

/** As a superuser, with the trigger disabled. */
const tamper = (sql: string) =>
  fresh.database.query({
    text: `begin; alter table audit_log disable trigger audit_log_append_only; ${sql};
           alter table audit_log enable trigger audit_log_append_only; commit`,
  });

const ENTRIES = 6;
let head: string;
beforeEach(async () => {
  await tamper('truncate audit_log');
  for (let i = 1; i <= ENTRIES; i++) await write(`number ${i}`);
  head = (await readAuditHead(fresh.database))!.hash;
});

/** Rewrites the chain from an entry on, with correct hashes. */
async function rewriteFrom(number: number): Promise<void> {
  await tamper(`
    update audit_log set entry = replace(entry::text, 'number', 'NUMBER')::json where number = ${number};
    update audit_log set hash = sha256(previous_hash || convert_to(entry::text, 'UTF8')) where number = ${number}`);
  for (let each = number + 1; each <= ENTRIES; each++) {
    await tamper(
      `update audit_log a set previous_hash = b.hash, hash = sha256(b.hash || convert_to(a.entry::text, 'UTF8'))
       from audit_log b where a.number = ${each} and b.number = ${each - 1}`,
    );
  }
}

test('an unchanged log verifies, and its head is returned', async () => {
  const verdict = { intact: true, entries: ENTRIES, head: { number: ENTRIES, hash: head } };
  expect(await verifyAudit(fresh.database, null)).toEqual(verdict);
  expect(await verifyAudit(fresh.database, head)).toEqual(verdict);
});

test('an empty log verifies, unless a head is given', async () => {
  await tamper('truncate audit_log');
  expect(await verifyAudit(fresh.database, null)).toEqual({ intact: true, entries: 0, head: null });
  expect(await verifyAudit(fresh.database, head)).toMatchObject({ intact: false, entries: 0, head: null });
});

test('entries after a known head do not affect its verification', async () => {
  await write('later');
  expect(await verifyAudit(fresh.database, head)).toMatchObject({ intact: true, entries: ENTRIES + 1 });
});

/** The hash of an entry with this content after another one. */
const linked = `sha256(hash || convert_to(entry::text, 'UTF8'))`;
const set = (change: string, number: number) => `update audit_log set ${change} where number = ${number}`;

test.each<[string, number, 'was changed' | 'does not follow' | 'is missing', string]>([
  ['a changed name', 3, 'was changed', set(`entry = replace(entry::text, 'number 3', 'number 4')::json`, 3)],
  ['a changed action', 2, 'was changed', set(`entry = replace(entry::text, '.create', '.delete')::json`, 2)],
  ['a blank more', 4, 'was changed', set(`entry = replace(entry::text, '{"at":', '{ "at":')::json`, 4)],
  ['a changed hash', 5, 'was changed', set(`hash = sha256('x')`, 5)],
  ['the hash of the head changed', 6, 'was changed', set(`hash = sha256('x')`, 6)],
  ['a changed link', 5, 'does not follow', set(`previous_hash = sha256('x')`, 5)],
  ['the first entry changed', 1, 'was changed', set(`entry = '{}'`, 1)],
  ['a first entry that follows something', 1, 'does not follow', set(`previous_hash = sha256('x')`, 1)],
  ['a removed entry', 3, 'is missing', 'delete from audit_log where number = 3'],
  ['the first entry removed', 1, 'is missing', 'delete from audit_log where number = 1'],
  [
    'a removed entry, the later ones moved up',
    3,
    'does not follow',
    'delete from audit_log where number = 3; update audit_log set number = number + 100 where number > 3; update audit_log set number = number - 101 where number > 100',
  ],
  [
    'two entries that changed places',
    2,
    'does not follow',
    `${set('number = 100', 2)}; ${set('number = 2', 3)}; ${set('number = 3', 100)}`,
  ],
  [
    'contents that changed places',
    2,
    'was changed',
    'update audit_log a set entry = b.entry from audit_log b where (a.number, b.number) in ((2, 3), (3, 2))',
  ],
  [
    'an inserted entry',
    4,
    'does not follow',
    `update audit_log set number = number + 100 where number >= 3; insert into audit_log select 3, entry, ${linked}, hash from audit_log where number = 2; update audit_log set number = number - 99 where number > 100`,
  ],
  [
    'an entry appended without a link',
    7,
    'does not follow',
    'insert into audit_log select 7, entry, hash, previous_hash from audit_log where number = 6',
  ],
  [
    'an entry appended with a gap',
    7,
    'is missing',
    `insert into audit_log select 8, entry, ${linked}, hash from audit_log where number = 6`,
  ],
  [
    'one entry rewritten with a matching hash',
    4,
    'does not follow',
    `update audit_log set entry = '{}', hash = sha256(previous_hash || '{}') where number = 3`,
  ],
])('a manipulation is found with its position: %s', async (_what, number, reason, change) => {
  await tamper(change);
  const verdict = await verifyAudit(fresh.database, null);
  expect(verdict).toMatchObject({ intact: false, entries: number - 1, first_broken: number });
  expect(verdict.reason).toContain(`Entry ${number} ${reason}`);
  expect(verdict.head?.number ?? 0).toBe(number - 1);
});

test.each<[string, number, () => Promise<unknown>]>([
  ['the end cut off', 4, () => tamper('delete from audit_log where number > 4')],
  ['the last entry cut off', 5, () => tamper('delete from audit_log where number > 5')],
  ['the last entry rewritten', 6, () => rewriteFrom(6)],
  ['all entries rewritten from one on', 6, () => rewriteFrom(2)],
])('a manipulation is found by a head stored elsewhere: %s', async (_what, entries, change) => {
  await change();
  expect(await verifyAudit(fresh.database, null)).toMatchObject({ intact: true, entries });
  const verdict = await verifyAudit(fresh.database, head);
  expect(verdict).toMatchObject({ intact: false, entries, reason: expect.stringMatching(/given head/) });
  expect(verdict.first_broken).toBeUndefined();
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
  await expect(fresh.database.query({ text })).rejects.toThrow('audit_log is append-only');
  expect(await verifyAudit(fresh.database, head)).toMatchObject({ intact: true });
});

test('a long log is read in pages', async () => {
  await fresh.database.query({
    text: `insert into audit_log (number, entry, hash, previous_hash)
           with recursive more as (
             select number, entry::text as entry, hash, previous_hash from audit_log where number = ${ENTRIES}
             union all
             select m.number + 1, e.entry, sha256(m.hash || convert_to(e.entry, 'UTF8')), m.hash
             from more m, lateral (select '{"at":"x","n":' || m.number || '}' as entry) e where m.number < 2600
           ) select number, entry::json, hash, previous_hash from more where number > ${ENTRIES}`,
  });
  expect(await verifyAudit(fresh.database, head)).toMatchObject({ intact: true, entries: 2600 });
  await tamper('delete from audit_log where number = 2000');
  expect(await verifyAudit(fresh.database, head)).toMatchObject({ intact: false, first_broken: 2000 });
});

test('a new head is logged once, and covers the entries up to it', async () => {
  const lines: string[] = [];
  const log = createLog({ write: (line) => lines.push(line), flush: () => {}, dropped: () => 0 }, 'info', {});
  const said = await anchorAudit(fresh.database, log, null);
  expect(await anchorAudit(fresh.database, log, said)).toBe(said);
  await write('one more');
  await anchorAudit(fresh.database, log, said);
  const anchors = lines.map((line) => JSON.parse(line));
  expect(anchors).toMatchObject([
    { level: 30, event: 'audit_head', number: ENTRIES, hash: head },
    { event: 'audit_head', number: ENTRIES + 1 },
  ]);
  await tamper(`delete from audit_log where number > ${ENTRIES}`);
  expect(await verifyAudit(fresh.database, anchors[0].hash)).toMatchObject({ intact: true });
  expect(await verifyAudit(fresh.database, anchors[1].hash)).toMatchObject({ intact: false });
});

test('an empty log has no head to log', async () => {
  await tamper('truncate audit_log');
  const lines: string[] = [];
  const log = createLog({ write: (line) => lines.push(line), flush: () => {}, dropped: () => 0 }, 'info', {});
  expect(await anchorAudit(fresh.database, log, null)).toBeNull();
  expect(lines).toEqual([]);
});
