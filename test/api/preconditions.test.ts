import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestApp, type TestApp } from '../helpers/app.ts';
import { addPerson, type TestPerson } from '../helpers/people.ts';

let app: TestApp;
let administrator: TestPerson;
beforeAll(async () => {
  app = await startTestApp();
  administrator = await addPerson(app, 'administrator');
});
afterAll(() => app.stop());

/** Each kind of thing with an ETag, and each of its changes: method, rest of the path, body. */
const kinds: [kind: string, method: string, rest: string, body: object | undefined][] = [
  ['webhooks', 'PATCH', '', { name: 'changed' }],
  ['webhooks', 'POST', '/rotate-secret', { overlap_seconds: 60 }],
  ['webhooks', 'DELETE', '', undefined],
  ['agents', 'PATCH', '', { webhook_ids: [] }],
  ['agents', 'POST', '/rotate', undefined],
  ['agents', 'DELETE', '', undefined],
  ['users', 'PATCH', '', { name: 'changed' }],
  ['users', 'DELETE', '', undefined],
];

/** With which one of a kind is made. */
const given: Record<string, () => object> = {
  webhooks: () => ({ name: 'test' }),
  agents: () => ({ name: randomUUID() }),
  users: () => ({ email: `${randomUUID()}@example.org`, role: 'viewer' }),
};

async function made(kind: string): Promise<{ path: string; tag: string }> {
  const { body } = await administrator.api('POST', `/api/v1/${kind}`, given[kind]!());
  const path = `/api/v1/${kind}/${body.id}`;
  return { path, tag: await tagOf(path) };
}

const tagOf = async (path: string) => (await administrator.api('GET', path)).headers.get('etag')!;
const change = (path: string, [, method, rest, body]: (typeof kinds)[number], tag: string) =>
  administrator.api(method, path + rest, body, { 'if-match': tag });

describe.each(kinds)('a change of %s: %s ...%s', (...kind) => {
  test.each([
    ['the tag', (tag: string) => tag],
    ['a list that has the tag', (tag: string) => `"other" , W/"weak",${tag}`],
    ['any', () => '*'],
  ])('is made when If-Match is %s', async (_what, given) => {
    const { path, tag } = await made(kind[0]);
    expect([200, 204]).toContain((await change(path, kind, given(tag))).status);
  });

  test.each([
    ['another tag', () => '"other"'],
    ['the tag, weak', (tag: string) => `W/${tag}`],
    ['no tag at all', () => 'nonsense'],
    ['nothing', () => ''],
  ])('is not made when If-Match is %s', async (_what, given) => {
    const { path, tag } = await made(kind[0]);
    const { status, body } = await change(path, kind, given(tag));
    expect([status, body.code]).toEqual([412, 'precondition_failed']);
    expect(await tagOf(path)).toBe(tag);
  });

  test('is not made when somebody else made one in between', async () => {
    const { path, tag } = await made(kind[0]);
    const name = randomUUID();
    await administrator.api('PATCH', path, { name });
    expect((await change(path, kind, tag)).status).toBe(412);
    expect((await administrator.api('GET', path)).body.name).toBe(name);
  });

  test('is made once by many who start from the same state at once', async () => {
    const { path, tag } = await made(kind[0]);
    const answers = await Promise.all(Array.from({ length: 6 }, () => change(path, kind, tag)));
    const statuses = answers.map(({ status }) => status).sort();
    // What is deleted, or out of force, is not found by those who come after.
    expect(statuses.filter((status) => status < 300)).toHaveLength(1);
    expect(statuses.filter((status) => status === (kind[1] === 'DELETE' ? 404 : 412))).toHaveLength(5);
  });
});

test.each(['webhooks', 'agents', 'users'])(
  'a PATCH of %s answers with the new tag, with which one can go on',
  async (kind) => {
    const { path, tag } = await made(kind);
    const first = await administrator.api('PATCH', path, { name: 'one' }, { 'if-match': tag });
    const next = first.headers.get('etag')!;
    expect(next).not.toBe(tag);
    expect(next).toBe(await tagOf(path));
    expect((await administrator.api('PATCH', path, { name: 'two' }, { 'if-match': next })).status).toBe(200);
  },
);

test('an answer that shows a secret has no tag: it is not what GET answers', async () => {
  const { path } = await made('webhooks');
  const { headers, body } = await administrator.api('POST', `${path}/rotate-secret`);
  expect([headers.get('etag'), body.secret]).toEqual([null, expect.any(String)]);
});

describe('GET with If-None-Match', () => {
  test.each([
    ['the tag', (tag: string) => tag, 304],
    ['the tag, weak', (tag: string) => `W/${tag}`, 304],
    ['a list that has the tag', (tag: string) => `"other", ${tag}`, 304],
    ['any', () => '*', 304],
    ['another tag', () => '"other"', 200],
  ])('of %s', async (_what, given, status) => {
    const { path, tag } = await made('agents');
    const answer = await administrator.api('GET', path, undefined, { 'if-none-match': given(tag) });
    expect([answer.status, answer.headers.get('etag')]).toEqual([status, tag]);
    if (status === 304) expect(answer.text).toBe('');
  });
});
