import { beforeAll, describe, expect, test } from 'vitest';
import { type Actor, type AuditRecord, record } from '../../../../server/store/audit/record.ts';
import { startTestApp } from '../../../helpers/app.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(startTestApp);
const administrator = shared(() => addPerson(app, 'administrator'));

const actorId = '5b5e1f6e-0000-4000-8000-000000000001';
const targetId = '5b5e1f6e-0000-4000-8000-000000000002';
const actor: Actor = {
  kind: 'user',
  id: actorId,
  name: 'somebody@example.org',
  token_id: null,
  address: '2001:db8::1',
  request_id: 'r-1',
};

/** Writes an entry like a change does. */
const write = (action: string, rest: { id?: string | null; name?: string; after?: object; by?: Actor } = {}) =>
  app.database.transaction((query) =>
    record(query, rest.by ?? actor, {
      action: action as AuditRecord['action'],
      target: { kind: action.split('.')[0]!, id: rest.id ?? null, name: rest.name ?? 'it' },
      after: rest.after ?? null,
    }),
  );

const list = (query = '') => administrator.api('GET', `/api/v1/audit${query}`);
const actionsOf = async (query: string) => {
  const { status, body } = await list(query);
  expect([status, body.errors]).toEqual([200, undefined]);
  return body.items.map((item: { action: string }) => item.action);
};

test('an entry contains actor, action, target, address and time', async () => {
  await write('webhook.update', { id: targetId, name: 'orders', after: { enabled: true } });
  const [entry] = (await list('?limit=1')).body.items;
  expect(entry).toEqual({
    number: expect.any(Number),
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    action: 'webhook.update',
    actor: { ...actor },
    target: { kind: 'webhook', id: targetId, name: 'orders' },
    before: null,
    after: { enabled: true },
    hash: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
});

test.each([
  ['NUL', 'a\0b', 'a\ufffdb'],
  ['half a surrogate pair', 'a\ud83db', 'a\ufffdb'],
  ['a whole one', 'a😀b', 'a😀b'],
  ['marks, quotes and backslashes', `<b>"\\u0000'`, `<b>"\\u0000'`],
  ['line ends and separators', 'a\n\u2028b', 'a\n\u2028b'],
])('a name with %s is recorded and can be searched', async (_what, name, kept) => {
  await write('webhook.create', { id: targetId, name, after: { name }, by: { ...actor, name } });
  const [entry] = (await list(`?target_id=${targetId}&limit=1`)).body.items;
  expect(entry).toMatchObject({ target: { name: kept }, after: { name: kept }, actor: { name: kept } });
});

describe('filters', () => {
  const other = '5b5e1f6e-0000-4000-8000-000000000003';
  let middle: string;
  beforeAll(async () => {
    await write('filter.one', { id: other, by: { ...actor, id: other } });
    await write('filter.two', { id: other });
    middle = (await list('?limit=1')).body.items[0].at;
    // Times are stored to the millisecond.
    while (Date.now() <= new Date(middle).getTime()) await new Promise((resolve) => setImmediate(resolve));
    await write('filter_three.one', { by: { ...actor, id: other } });
  });

  test.each([
    ['?action=filter.', ['filter.two', 'filter.one']],
    ['?action=filter.one', ['filter.one']],
    ['?action=filter', ['filter_three.one', 'filter.two', 'filter.one']],
    ['?action=filter_', ['filter_three.one']],
    [`?target_id=${other}`, ['filter.two', 'filter.one']],
    [`?target_id=${other.toUpperCase()}`, ['filter.two', 'filter.one']],
    [`?actor_id=${other}`, ['filter_three.one', 'filter.one']],
    [`?actor_id=${other}&target_id=${other}`, ['filter.one']],
    [`?actor_id=${other}&action=webhook.`, []],
    [`?actor_id=${other}&action=!filter.`, ['filter_three.one']],
  ])('%s', async (query, actions) => {
    expect(await actionsOf(query)).toEqual(actions);
  });

  test('by a start and an end time in any time zone', async () => {
    expect((await actionsOf(`?action=filter&from=${middle}`)).slice(0, 2)).toEqual(['filter_three.one', 'filter.two']);
    expect(await actionsOf(`?action=filter&to=${middle}`)).not.toContain('filter.two');
    const there = encodeURIComponent(
      new Date(new Date(middle).getTime() + 3_600_000).toISOString().replace('Z', '+01:00'),
    );
    expect(await actionsOf(`?action=filter&to=${there}`)).toEqual(await actionsOf(`?action=filter&to=${middle}`));
    expect(await actionsOf('?from=2000-01-01T00:00:00Z&to=2000-01-02T00:00:00Z')).toEqual([]);
    expect((await list('?action=!')).status).toBe(422);
  });
});

describe('the export', () => {
  beforeAll(async () => {
    for (const name of ['one', 'two']) await write(`export.${name}`);
  });

  const lines = async (query: string) => {
    const answer = await administrator.api('GET', `/api/v1/audit/export${query}`);
    expect(answer.status).toBe(200);
    return {
      ...answer,
      entries: answer.text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line)),
    };
  };

  test('is the list as JSON lines in an attachment', async () => {
    const { headers, entries } = await lines('?action=export.');
    expect(headers.get('content-type')).toBe('application/x-ndjson');
    expect(headers.get('content-disposition')).toBe('attachment; filename="audit.jsonl"');
    expect(entries).toEqual((await list('?action=export.')).body.items);
  });

  test('continues below its cursor', async () => {
    const { entries } = await lines('?action=export.');
    expect((await lines(`?action=export.&cursor=${entries[0].number}`)).entries).toEqual(entries.slice(1));
  });

  test('is empty without matches, and accepts no limit', async () => {
    expect((await lines('?action=no_such')).text).toBe('');
    expect((await administrator.api('GET', '/api/v1/audit/export?limit=5')).status).toBe(422);
  });
});

test('pages reach the first entry and return each entry once, while others are written', async () => {
  const seen: number[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const { body } = await list(`?limit=3${query}`);
    seen.push(...body.items.map((item: { number: number }) => item.number));
    cursor = body.next_cursor;
    await write('meanwhile.write');
  }
  expect(seen).toEqual(Array.from({ length: seen[0]! }, (_, i) => seen[0]! - i));
});

test('an entry that was changed outside Weir does not hide other entries', async () => {
  await app.sql(`insert into audit_log (number, entry, hash, previous_hash)
           select max(number) + 1, '{"action":7,"actor":"me"}', decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex')
           from audit_log`);
  const { status, body } = await list('?limit=2');
  expect(status).toBe(200);
  expect(body.items[0]).toMatchObject({ at: null, action: null, actor: null, target: null });
  expect(body.items[1].action).toBe('meanwhile.write');
});
