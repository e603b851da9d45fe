import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { request, signIn, startAgentApp } from '../../../helpers/agents.ts';
import { addPerson, lastAudit } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));
const viewer = shared(() => addPerson(app, 'viewer'));

const PATH = '/api/v1/agents';
const CREDENTIAL = /^wa_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/;
const show = async (id: string) => (await viewer.api('GET', `${PATH}/${id}`)).body;
const webhooksOf = async (id: string, query = '') => (await viewer.api('GET', `${PATH}/${id}/webhooks${query}`)).body;
const idsOf = async (id: string): Promise<string[]> =>
  (await webhooksOf(id)).items.map(({ webhook_id }: { webhook_id: string }) => webhook_id);

/** The agent of a 201. */
async function made(body: object = {}) {
  const answer = await operator.api('POST', PATH, { name: randomUUID(), ...body });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
}

test('a new agent has a credential, which only this response shows and which opens a session at once', async () => {
  const webhook = await app.addWebhook();
  const answer = await operator.api('POST', PATH, { name: ' ci ', webhook_ids: [webhook.id] });
  const { credential, ...agent } = answer.body;
  expect(answer.headers.get('location')).toBe(`${PATH}/${agent.id}`);
  expect(agent).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    name: 'ci',
    revoked: false,
    temporary: false,
    webhooks: 1,
    filters: 0,
    first_webhook_ids: [webhook.id],
    max_leased: null,
    paused: false,
    paused_at: null,
    previous_credential_expires_at: null,
    created_at: expect.stringMatching(/Z$/),
    updated_at: agent.created_at,
  });
  expect(credential).toMatch(CREDENTIAL);
  expect(await show(agent.id)).toEqual(agent);
  expect(await signIn(app, credential)).toMatch(/^ws_/);
  expect(JSON.stringify(await lastAudit(app))).not.toContain(credential.slice(16));
  expect(await lastAudit(app)).toMatchObject({ action: 'agent.create', actor: { id: operator.id }, after: agent });
});

describe('two active agents with one name', () => {
  const taken = { status: 409, body: { code: 'name_taken', detail: 'Another active agent has this name.' } };

  test('are refused on create and on rename', async () => {
    const [first, second] = [await made(), await made()];
    expect(await operator.api('POST', PATH, { name: first.name })).toMatchObject(taken);
    expect(await operator.api('PATCH', `${PATH}/${second.id}`, { name: first.name })).toMatchObject(taken);
    expect((await show(second.id)).name).toBe(second.name);
    expect((await operator.api('PATCH', `${PATH}/${first.id}`, { name: first.name })).status).toBe(200);
  });

  test('are refused for concurrent requests', async () => {
    const name = randomUUID();
    const answers = await Promise.all(Array.from({ length: 8 }, () => operator.api('POST', PATH, { name })));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(7).fill(409)]);
  });

  test('are allowed when the first one is revoked', async () => {
    const { id, name } = await made();
    expect((await operator.api('DELETE', `${PATH}/${id}`)).status).toBe(204);
    expect((await operator.api('POST', PATH, { name })).status).toBe(201);
  });
});

const wrong: [string, object, string, RegExp][] = [
  ['an empty name', { name: '' }, '/name', /^Give 1 to 200 characters\.$/],
  ['a name with a tab', { name: 'a\tb' }, '/name', /control characters/i],
  ['webhooks outside a list', { webhook_ids: 'x' }, '/webhook_ids', /^Give a list\.$/],
  ['an invalid webhook id', { webhook_ids: ['x'] }, '/webhook_ids/0', /^Give an id, such as/],
  ['an unknown webhook', { webhook_ids: [randomUUID()] }, '/webhook_ids/0', /^No webhook has the id/],
  [
    'too many webhooks',
    { webhook_ids: Array.from({ length: 1_001 }, () => randomUUID()) },
    '/webhook_ids',
    /^Give at most 1000 items\.$/,
  ],
  [
    'a credential of its own',
    { credential: 'wa_mine' },
    '/credential',
    /^This field is unknown; allowed: (id, )?name, .*\.$/,
  ],
];

describe('an update', () => {
  test('of the name keeps the webhooks, and of the webhooks keeps the name', async () => {
    const [one, two] = await Promise.all([app.addWebhook(), app.addWebhook()]);
    const { id } = await made({ webhook_ids: [one.id] });
    expect((await operator.api('PATCH', `${PATH}/${id}`, { name: 'renamed' })).body).toMatchObject({
      name: 'renamed',
      first_webhook_ids: [one.id],
    });
    expect((await operator.api('PATCH', `${PATH}/${id}`, { webhook_ids: [two.id] })).body).toMatchObject({
      name: 'renamed',
      first_webhook_ids: [two.id],
    });
    expect((await viewer.api('GET', `/api/v1/webhooks/${two.id}`)).body.agent_ids).toEqual([id]);
  });

  test.each(wrong)('to %s is refused, and so is a new agent with it', async (_what, bad, pointer, detail) => {
    const { credential: _, ...before } = await made();
    const errors = [{ pointer, detail: expect.stringMatching(detail) }];
    const changed = await operator.api('PATCH', `${PATH}/${before.id}`, bad);
    expect([changed.status, changed.body.errors]).toEqual([422, errors]);
    const created = await operator.api('POST', PATH, { name: 'refused', ...bad });
    expect([created.status, created.body.errors]).toEqual([422, errors]);
    expect(await show(before.id)).toEqual(before);
    expect((await viewer.api('GET', `${PATH}?q=refused`)).body.items).toEqual([]);
  });

  test('of both sides of a subscription at the same time succeeds for both', async () => {
    const webhooks = await Promise.all([app.addWebhook(), app.addWebhook()]);
    const agents = await Promise.all([made(), made()]);
    const answers = await Promise.all([
      ...agents.map(({ id }) =>
        operator.api('PATCH', `${PATH}/${id}`, { webhook_ids: webhooks.map((webhook) => webhook.id) }),
      ),
      ...webhooks.map(({ id }) =>
        operator.api('PATCH', `/api/v1/webhooks/${id}`, { agent_ids: agents.map((agent) => agent.id).reverse() }),
      ),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    for (const { id } of agents) expect((await show(id)).webhooks).toBe(2);
  });
});

test('a revoked agent remains visible as revoked and cannot be changed', async () => {
  const webhook = await app.addWebhook();
  const { id, credential } = await made({ webhook_ids: [webhook.id] });
  expect((await operator.api('DELETE', `${PATH}/${id}`)).status).toBe(204);
  expect(await show(id)).toMatchObject({ id, revoked: true });
  expect((await request(`${app.url}/api/v1/agent/session`, credential, {})).status).toBe(401);
  expect((await viewer.api('GET', `/api/v1/webhooks/${webhook.id}`)).body.agent_ids).toEqual([]);
  for (const [method, rest] of [
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/rotate'],
  ] as const) {
    const { status, body } = await operator.api(method, `${PATH}/${id}${rest}`, {});
    expect([status, body.code]).toEqual([404, 'agent_unknown']);
  }
});

describe('the list', () => {
  test('is ordered newest first, paged, and filtered by name and state', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.unshift((await made({ name: `Listed ${i}` })).id);
    await operator.api('DELETE', `${PATH}/${ids[1]}`);
    const page = async (query: string) => (await viewer.api('GET', `${PATH}?q=listed&${query}`)).body;
    const idsOf = async (query: string) => (await page(query)).items.map(({ id }: { id: string }) => id);
    const first = await page('limit=2');
    expect([first.items.map(({ id }: { id: string }) => id), first.next_cursor]).toEqual([ids.slice(0, 2), ids[1]]);
    expect(await idsOf(`limit=2&cursor=${first.next_cursor}`)).toEqual([ids[2]]);
    expect(await idsOf('revoked=true')).toEqual([ids[1]]);
    expect(await idsOf('revoked=false')).toEqual([ids[0], ids[2]]);
  });

  test('refuses the cursor of a deleted agent, and accepts that of a revoked temporary one', async () => {
    const name = randomUUID();
    const older = await made({ name: `${name} 1` });
    const last = await made({ name: `${name} 2` });
    await app.sql('update agents set temporary = true, revoked_at = now() where id = $1', last.id);
    const next = (cursor: string) => viewer.api('GET', `${PATH}?q=${name}&cursor=${cursor}`);
    expect((await next(last.id)).body.items).toMatchObject([{ id: older.id }]);
    await app.sql('delete from agents where id = $1', last.id);
    expect(await next(last.id)).toMatchObject({
      status: 422,
      body: { code: 'invalid_request', errors: [{ parameter: 'cursor' }] },
    });
    expect(await next(older.id)).toMatchObject({ status: 200, body: { items: [], next_cursor: null } });
  });

  test('has the same members as the agent itself: of its webhooks the number and the first three', async () => {
    const webhooks = await Promise.all(Array.from({ length: 4 }, () => app.addWebhook()));
    const ids = webhooks.map(({ id }) => id).sort();
    const { id, name } = await made({ webhook_ids: ids });
    const [listed] = (await viewer.api('GET', `${PATH}?q=${name}`)).body.items;
    expect(listed).toMatchObject({ webhooks: 4, filters: 0, first_webhook_ids: ids.slice(0, 3) });
    expect(listed).toEqual(await show(id));
  });
});

describe('the webhooks of an agent', () => {
  test('are listed by id, in pages, also those with a filter alone, or one of them', async () => {
    const webhooks = await Promise.all(Array.from({ length: 4 }, () => app.addWebhook({ name: 'listed' })));
    const ids = webhooks.map(({ id }) => id).sort();
    const { id } = await made({ webhook_ids: ids });
    await operator.api('PUT', `${PATH}/${id}/subscriptions/${ids[2]}`, { filter: 'bytes > 1' });
    const item = (index: number) => ({
      webhook_id: ids[index],
      name: 'listed',
      filter: index === 2 ? 'bytes > 1' : null,
      order_by: null,
    });
    const first = await webhooksOf(id, '?limit=3');
    expect(first).toEqual({ items: [0, 1, 2].map(item), next_cursor: ids[2] });
    expect(await webhooksOf(id, `?limit=3&cursor=${first.next_cursor}`)).toEqual({
      items: [item(3)],
      next_cursor: null,
    });
    expect((await webhooksOf(id, '?filtered=true')).items).toEqual([item(2)]);
    expect((await webhooksOf(id, '?filtered=false')).items).toEqual([0, 1, 3].map(item));
    expect((await webhooksOf(id, `?webhook_id=${ids[1]}`)).items).toEqual([item(1)]);
    expect((await webhooksOf(id, `?webhook_id=${randomUUID()}`)).items).toEqual([]);
  });

  test('leave out deleted ones', async () => {
    const webhook = await app.addWebhook();
    const { id } = await made({ webhook_ids: [webhook.id] });
    await app.webhooks.remove(webhook.id);
    expect(await webhooksOf(id)).toEqual({ items: [], next_cursor: null });
    expect(await show(id)).toMatchObject({ webhooks: 0, first_webhook_ids: [] });
  });

  test('change one at a time: each keeps the others, and a filter that is not given', async () => {
    const [one, two] = await Promise.all([app.addWebhook(), app.addWebhook()]);
    const { id } = await made({ webhook_ids: [one.id] });
    const path = (webhook: { id: string }) => `${PATH}/${id}/subscriptions/${webhook.id}`;
    await operator.api('PUT', path(one), { filter: 'bytes > 1' });
    for (const webhook of [one, two]) expect((await operator.api('PUT', path(webhook), {})).status).toBe(200);
    expect((await webhooksOf(id, `?webhook_id=${one.id}`)).items[0].filter).toBe('bytes > 1');
    // Also when the subscription has ended already.
    for (let i = 0; i < 2; i++) {
      const { status, body } = await operator.api('DELETE', path(one));
      expect([status, body]).toEqual([200, await show(id)]);
    }
    expect(await idsOf(id)).toEqual([two.id]);
  });
});

describe('the ETag of an agent', () => {
  const tagOf = async (id: string) => (await viewer.api('GET', `${PATH}/${id}`)).headers.get('etag');

  test('changes with each change of its subscriptions, also those that its first webhooks do not show, and by the webhook', async () => {
    const webhooks = await Promise.all(Array.from({ length: 6 }, () => app.addWebhook()));
    const ids = webhooks.map(({ id }) => id).sort();
    const { id } = await made({ webhook_ids: ids.slice(0, 4) });
    const subscription = (webhookId: string | undefined) => `${PATH}/${id}/subscriptions/${webhookId}`;
    const changes: [method: string, path: string, body: object | undefined][] = [
      ['PUT', subscription(ids[3]), { filter: 'bytes > 1' }],
      ['PUT', subscription(ids[3]), { filter: 'bytes > 2' }],
      ['PATCH', `${PATH}/${id}`, { webhook_ids: [...ids.slice(0, 3), ids[4]] }],
      ['PATCH', `/api/v1/webhooks/${ids[5]}`, { agent_ids: [id] }],
      ['PATCH', `/api/v1/webhooks/${ids[4]}`, { agent_ids: [] }],
      ['DELETE', subscription(ids[5]), undefined],
      ['PUT', subscription(ids[5]), {}],
    ];
    const seen = new Set([await tagOf(id)]);
    for (const [method, path, body] of changes) {
      expect((await operator.api(method, path, body)).status, `${method} ${path}`).toBe(200);
      seen.add(await tagOf(id));
    }
    expect(seen.size).toBe(changes.length + 1);
  });

  test('changes with two changes of one millisecond', async () => {
    const { id } = await made();
    const { updated_at } = await show(id);
    await app.sql(`update agents set updated_at = now() + interval '1 hour' where id = $1`, id);
    const before = await tagOf(id);
    await operator.api('PATCH', `${PATH}/${id}`, {});
    expect(await tagOf(id)).not.toBe(before);
    expect((await show(id)).updated_at > updated_at).toBe(true);
  });
});

describe('the audit entry of a change of subscriptions', () => {
  const statesOf = async () => {
    const { before, after } = (await lastAudit(app)) as Record<'before' | 'after', { subscriptions: unknown }>;
    return [before.subscriptions, after.subscriptions];
  };

  test('says what ended and what began, and filter and order before and after', async () => {
    const [one, two] = (await Promise.all([app.addWebhook(), app.addWebhook()])).map(({ id }) => id);
    const { id } = await made({ webhook_ids: [one] });
    const plain = { filter: null, order_by: null };
    const given = { filter: 'bytes > 1', order_by: '/customer' };
    const list = (...first: object[]) => ({ changed: first.length, first });
    await operator.api('PUT', `${PATH}/${id}/subscriptions/${one}`, given);
    expect(await statesOf()).toEqual([list({ webhook_id: one, ...plain }), list({ webhook_id: one, ...given })]);
    await operator.api('PATCH', `${PATH}/${id}`, { webhook_ids: [two] });
    expect(await statesOf()).toEqual([list({ webhook_id: one, ...given }), list({ webhook_id: two, ...plain })]);
    await operator.api('DELETE', `${PATH}/${id}/subscriptions/${two}`);
    expect(await statesOf()).toEqual([list({ webhook_id: two, ...plain }), list()]);
    await operator.api('PATCH', `${PATH}/${id}`, { name: randomUUID() });
    expect(await statesOf()).toEqual([undefined, undefined]);
  });

  test('names at most 100 of them, and their number', async () => {
    const { id } = await made();
    await app.sql(
      `with added as (insert into webhooks (id, name) select gen_random_uuid(), 'one of 101' from generate_series(1, 101) returning id)
             insert into subscriptions (webhook_id, agent_id) select id, $1 from added`,
      id,
    );
    await operator.api('PATCH', `${PATH}/${id}`, { webhook_ids: [] });
    const [ended, begun] = await statesOf();
    expect([ended, begun]).toMatchObject([{ changed: 101 }, { changed: 0, first: [] }]);
    expect((ended as { first: object[] }).first).toHaveLength(100);
  });
});

describe('the filter of a subscription', () => {
  const set = (id: string, webhookId: string, filter: unknown) =>
    operator.api('PUT', `${PATH}/${id}/subscriptions/${webhookId}`, { filter });

  test('is set, shown and removed; other changes of the agent keep it', async () => {
    const [one, two] = await Promise.all([app.addWebhook(), app.addWebhook()]);
    const { id } = await made({ webhook_ids: [one.id] });
    const answer = await set(id, two.id, ' body.action == "opened" ');
    expect([answer.status, answer.body]).toEqual([200, await show(id)]);
    await operator.api('PATCH', `${PATH}/${id}`, { name: randomUUID(), webhook_ids: [two.id, one.id] });
    const filterOf = async ({ id: webhookId }: { id: string }) =>
      (await webhooksOf(id, `?webhook_id=${webhookId}`)).items[0]?.filter;
    expect([await filterOf(one), await filterOf(two)]).toEqual([null, 'body.action == "opened"']);
    expect((await set(id, two.id, null)).status).toBe(200);
    expect(await filterOf(two)).toBeNull();
    await set(id, one.id, 'bytes > 1');
    for (const ids of [[two.id], [one.id]]) await operator.api('PATCH', `${PATH}/${id}`, { webhook_ids: ids });
    expect(await filterOf(one)).toBeNull();
  });

  test.each([
    ['an unknown variable', 'bdy.a == 1', /^Character 1: unknown variable: bdy; a filter can read headers, .*\.$/],
    ['a syntax error', 'bytes = 1', /^Character 7: unexpected character: =; write == to compare\.$/],
    ['no text', '  ', /^Give an expression/],
    ['a text too long', `bytes > ${'1'.repeat(2_000)}`, /^Give at most 2000 characters\.$/],
    ['a number', 5, /Give at most 2000 characters/],
  ])('that is %s is refused, and nothing changes', async (_what, filter, detail) => {
    const webhook = await app.addWebhook();
    const { id } = await made();
    const { status, body } = await set(id, webhook.id, filter);
    expect([status, body.errors]).toEqual([422, [{ pointer: '/filter', detail: expect.stringMatching(detail) }]]);
    expect(await idsOf(id)).toEqual([]);
  });

  test('of an unknown webhook is not found', async () => {
    const { id } = await made();
    for (const webhookId of [randomUUID(), 'none'])
      expect((await set(id, webhookId, null)).body).toMatchObject({ status: 404, code: 'webhook_unknown' });
    const ended = await operator.api('DELETE', `${PATH}/${id}/subscriptions/none`);
    expect(ended.body).toMatchObject({ status: 404, code: 'webhook_unknown' });
  });
});
