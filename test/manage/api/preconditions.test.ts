/** If-Match and If-None-Match: the ways to write them at one change, and one stale change of every kind. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { ApiDocument } from '../../helpers/openapi.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startTestApp);
const administrator = shared(() => addPerson(app, 'administrator'));
const webhook = shared(() => app.addWebhook());

/** Each change of a thing with an ETag: method, path, body. */
const changes = {
  updateWebhook: ['PATCH', 'webhooks', '', { name: 'changed' }],
  rotateSecret: ['POST', 'webhooks', '/rotate-secret', { overlap_seconds: 60 }],
  endPreviousSecret: ['DELETE', 'webhooks', '/secrets/previous', undefined],
  deleteWebhook: ['DELETE', 'webhooks', '', undefined],
  updateAgent: ['PATCH', 'agents', '', { webhook_ids: [] }],
  setSubscription: ['PUT', 'agents', '/subscriptions/', { filter: 'bytes > 0' }],
  endSubscription: ['DELETE', 'agents', '/subscriptions/', undefined],
  rotateAgent: ['POST', 'agents', '/rotate', undefined],
  revokeAgent: ['DELETE', 'agents', '', undefined],
  updateUser: ['PATCH', 'users', '', { name: 'changed' }],
  deleteUser: ['DELETE', 'users', '', undefined],
} as const;
type Name = keyof typeof changes;
const names = Object.keys(changes) as Name[];
const kinds = ['webhooks', 'agents', 'users'] as const;

/** The input that creates a resource of each kind. */
const given = {
  webhooks: () => ({ name: 'test' }),
  agents: () => ({ name: randomUUID() }),
  users: () => ({ email: `${randomUUID()}@example.org`, role: 'viewer' }),
};

async function made(kind: (typeof kinds)[number]): Promise<{ path: string; tag: string }> {
  const { body } = await administrator.api('POST', `/api/v1/${kind}`, given[kind]());
  const path = `/api/v1/${kind}/${body.id}`;
  // With a previous secret that can be ended; the first rotation gives a webhook without one its secret.
  if (kind === 'webhooks')
    for (let i = 0; i < 2; i++) await administrator.api('POST', `${path}/rotate-secret`, { overlap_seconds: 60 });
  return { path, tag: await tagOf(path) };
}

const tagOf = async (path: string) => (await administrator.api('GET', path)).headers.get('etag')!;
const change = (name: Name, path: string, tag: string) => {
  const [method, , rest, body] = changes[name];
  return administrator.api(method, path + rest + (rest.endsWith('/') ? webhook.id : ''), body, {
    'if-match': tag,
  });
};
const deletes = (name: Name) => changes[name][0] === 'DELETE' && changes[name][2] === '';
const done = (name: Name) => (deletes(name) || name === 'endPreviousSecret' ? 204 : 200);

test('the table has every operation that documents If-Match', async () => {
  const { operations, document } = new ApiDocument((await administrator.api('GET', '/api/v1/openapi.json')).body);
  const documented = operations.filter(({ path, method }) => {
    const { parameters = [], responses } = document.paths[path][method.toLowerCase()];
    return '412' in responses && parameters.some(({ name }: { name: string }) => name === 'If-Match');
  });
  expect(documented.map(({ operationId }) => operationId).toSorted()).toEqual([...names, 'updateIssue'].toSorted());
});

test('updateIssue succeeds from the current state, not from an older one', async () => {
  const id = randomUUID();
  await app.sql(
    `insert into issues (id, kind, subject_id, first_at, last_at, count, facts, resolved_at)
           values ($1, 'archive', '', now(), now(), 1, '{"name":""}', now())`,
    id,
  );
  const path = `/api/v1/issues/${id}`;
  const assign = (assignee: string, tag: string) => administrator.api('PATCH', path, { assignee }, { 'if-match': tag });
  const first = await tagOf(path);
  expect((await assign('ada', first)).status).toBe(200);
  expect((await assign('grace', first)).body.code).toBe('precondition_failed');
  const current = await tagOf(path);
  // It is seen again: a change overwrites nothing of that, but GET has something new.
  await app.sql('update issues set last_at = now(), count = count + 1 where id = $1', id);
  const seen = await administrator.api('GET', path, undefined, { 'if-none-match': current });
  expect([seen.status, seen.headers.get('etag') === current]).toEqual([200, false]);
  const { status, headers } = await assign('grace', current);
  expect([status, headers.get('etag')]).toEqual([200, await tagOf(path)]);
  expect((await assign('ada', current)).status).toBe(412);
  const unchanged = await administrator.api('GET', path, undefined, { 'if-none-match': await tagOf(path) });
  expect(unchanged.status).toBe(304);
});

describe.each(names)('%s', (name) => {
  test('succeeds from the current state, not from an older one', async () => {
    const { path, tag } = await made(changes[name][1]);
    await administrator.api('PATCH', path, { name: randomUUID() });
    const current = await tagOf(path);
    const { status, body } = await change(name, path, tag);
    expect([status, body.code]).toEqual([412, 'precondition_failed']);
    expect(await tagOf(path)).toBe(current);
    expect((await change(name, path, current)).status).toBe(done(name));
  });

  test('succeeds once for concurrent requests from the same state', async () => {
    const { path, tag } = await made(changes[name][1]);
    const answers = await Promise.all(Array.from({ length: 6 }, () => change(name, path, tag)));
    // Requests after a deletion do not find the resource.
    const late = deletes(name) ? 404 : 412;
    expect(answers.map(({ status }) => status).toSorted()).toEqual([done(name), late, late, late, late, late]);
  });
});

describe('a change', () => {
  test.each([
    ['the tag', (tag: string) => tag],
    ['a list that has the tag', (tag: string) => `"other" , W/"weak",${tag}`],
    ['any', () => '*'],
  ])('succeeds when If-Match is %s', async (_what, given) => {
    const { path, tag } = await made('webhooks');
    expect((await change('updateWebhook', path, given(tag))).status).toBe(200);
  });

  test.each([
    ['another tag', () => '"other"'],
    ['the tag, weak', (tag: string) => `W/${tag}`],
    ['no tag at all', () => 'nonsense'],
    ['nothing', () => ''],
  ])('is refused when If-Match is %s', async (_what, given) => {
    const { path, tag } = await made('webhooks');
    const { status, body } = await change('updateWebhook', path, given(tag));
    expect([status, body.code]).toEqual([412, 'precondition_failed']);
    expect(await tagOf(path)).toBe(tag);
  });
});

test.each(kinds)('a PATCH of %s answers with the new tag, with which one can go on', async (kind) => {
  const { path, tag } = await made(kind);
  const first = await administrator.api('PATCH', path, { name: 'one' }, { 'if-match': tag });
  const next = first.headers.get('etag')!;
  expect(next).not.toBe(tag);
  expect(next).toBe(await tagOf(path));
  expect((await administrator.api('PATCH', path, { name: 'two' }, { 'if-match': next })).status).toBe(200);
});

test('a response that shows a secret has no ETag, because GET returns something else', async () => {
  const { path } = await made('webhooks');
  const { headers, body } = await administrator.api('POST', `${path}/rotate-secret`);
  expect([headers.get('etag'), body.secret]).toEqual([null, expect.any(String)]);
});

test.each([
  ['the tag', (tag: string) => tag, 304],
  ['the tag, weak', (tag: string) => `W/${tag}`, 304],
  ['a list that has the tag', (tag: string) => `"other", ${tag}`, 304],
  ['any', () => '*', 304],
  ['another tag', () => '"other"', 200],
])('GET with If-None-Match of %s', async (_what, given, status) => {
  const { path, tag } = await made('agents');
  const answer = await administrator.api('GET', path, undefined, { 'if-none-match': given(tag) });
  expect([answer.status, answer.headers.get('etag')]).toEqual([status, tag]);
  if (status === 304) expect(answer.text).toBe('');
});
