import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { addAgent, request, startAgentApp } from '../../../helpers/agents.ts';
import { holdTimers } from '../../../helpers/clock.ts';
import { addPerson, lastAudit, withoutNulls } from '../../../helpers/people.ts';
import { signedRequest } from '../../../helpers/requests.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(() =>
  startAgentApp({
    FRONTEND_PUBLIC_API_URL: 'https://hooks.example',
    WEBHOOK_MAX_PAYLOAD_BYTES: 5_000,
    RETENTION_DAYS: 10,
  }),
);
const operator = shared(() => addPerson(app, 'operator'));
const viewer = shared(() => addPerson(app, 'viewer'));

const PATH = '/api/v1/webhooks';
const HEADERS = expect.stringMatching(/^\/headers/);
const create = (body: object) => operator.api('POST', PATH, body);
const patch = (id: string, body: object) => operator.api('PATCH', `${PATH}/${id}`, body);
const show = async (id: string) => (await viewer.api('GET', `${PATH}/${id}`)).body;

/** The webhook of a 201. */
async function made(body: object) {
  const answer = await create({ name: 'test', ...body });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
}

async function statusOfSending(id: string, secret: string | null, header?: string) {
  const options = { secret, ...(header === undefined ? {} : { header }) };
  return (await fetch(`${app.url}/in/${id}`, signedRequest(options))).status;
}

describe('a new webhook', () => {
  test('is returned with its Location and accepts requests at once', async () => {
    const answer = await create({ name: ' github ' });
    expect(answer.status).toBe(201);
    expect(answer.headers.get('location')).toBe(`${PATH}/${answer.body.id}`);
    expect(withoutNulls(answer.body)).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'github',
      description: '',
      url: `https://hooks.example/in/${answer.body.id}`,
      enabled: true,
      has_secret: false,
      signature_scheme: 'sha256',
      has_verify_token: false,
      agent_ids: [],
      cell: 0,
      created_at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
      updated_at: answer.body.created_at,
    });
    expect(await show(answer.body.id)).toEqual(answer.body);
    expect(await statusOfSending(answer.body.id, null)).toBe(202);
  });

  test('has all given fields', async () => {
    const agent = await addAgent(app);
    const given = {
      name: 'full',
      description: 'orders\nof the shop',
      enabled: false,
      signature_header: 'x-own',
      dedupe_header: 'x-once',
      event_type_from: 'header:x-kind+json:/Action',
      max_payload_bytes: 5_000,
      rate_limit_max: 7,
      retention_days: 10,
      agent_ids: [agent.id],
    };
    const body = await made({ ...given, signature_header: 'X-Own', agent_ids: [agent.id.toUpperCase(), agent.id] });
    expect(body).toMatchObject(given);
    expect((await request(`${app.url}${PATH}`, agent.token)).body.items).toEqual([body]);
  });

  test('shows a generated secret only in this response, and verifies with it', async () => {
    const { id, secret, has_secret } = await made({ generate_secret: true });
    expect([has_secret, secret]).toEqual([true, expect.stringMatching(/^[0-9a-f]{64}$/)]);
    expect([await statusOfSending(id, secret), await statusOfSending(id, 'another')]).toEqual([202, 403]);
    expect(JSON.stringify(await show(id))).not.toContain(secret);
    expect(JSON.stringify(await lastAudit(app))).not.toContain(secret);
  });

  test('never returns a given secret', async () => {
    const answer = await create({ name: 'a', secret: ' geheim ' });
    expect(answer.text).not.toContain('geheim');
    expect(JSON.stringify(await lastAudit(app))).not.toContain('geheim');
    const [row] = await app.sql<{ sealed: Buffer }>(
      'select sealed from webhook_secrets where webhook_id = $1',
      answer.body.id,
    );
    expect(row!.sealed.includes('geheim')).toBe(false);
    expect(await statusOfSending(answer.body.id, ' geheim ')).toBe(202);
  });

  test('is recorded with its creator', async () => {
    const { url: _, ...record } = await made({ name: 'noted' });
    expect(await lastAudit(app)).toMatchObject({
      action: 'webhook.create',
      actor: { kind: 'token', id: operator.id, name: operator.email, address: '127.0.0.1' },
      target: { kind: 'webhook', id: record.id, name: 'noted' },
      before: null,
      after: record,
    });
  });
});

/** Every error of a field, with its pointer and message. */
const wrong: [string, object, string, RegExp][] = [
  ['an empty name', { name: ' ' }, '/name', /^Give 1 to 200 characters\.$/],
  ['a name too long', { name: 'x'.repeat(201) }, '/name', /^Give 1 to 200 characters\.$/],
  ['a name with NUL', { name: 'a\u0000b' }, '/name', /control characters/i],
  ['half a surrogate pair in the name', { name: 'a\ud800' }, '/name', /control characters/i],
  ['no name', { name: null }, '/name', /^Give 1 to 200 characters\.$/],
  ['a description too long', { description: 'x'.repeat(2_001) }, '/description', /^Give at most 2000 characters\.$/],
  ['an escape in the description', { description: '\u001b[2J' }, '/description', /control characters/i],
  ['enabled in words', { enabled: 'yes' }, '/enabled', /^Give true or false\.$/],
  ['a signature header with a blank', { signature_header: 'X Own' }, '/signature_header', /name of a header/],
  ['a signature header with a colon', { signature_header: 'X-Own:' }, '/signature_header', /name of a header/],
  ['an empty signature header', { signature_header: '' }, '/signature_header', /name of a header/],
  ['an event type from nowhere', { event_type_from: 'x-kind' }, '/event_type_from', /header:NAME, json:\/POINTER/],
  ['an event type from a credential', { event_type_from: 'header:cookie' }, '/event_type_from', /never stored/],
  ['a dedupe header too long', { dedupe_header: 'x'.repeat(101) }, '/dedupe_header', /name of a header/],
  ['a payload of nothing', { max_payload_bytes: 0 }, '/max_payload_bytes', /^Give at least 1\.$/],
  [
    'a higher payload cap',
    { max_payload_bytes: 5_001 },
    '/max_payload_bytes',
    /at most 5000.*only lower WEBHOOK_MAX_P/,
  ],
  ['a fraction of a request', { rate_limit_max: 1.5 }, '/rate_limit_max', /^Give a whole number\.$/],
  ['a limit past all counting', { rate_limit_max: 2 ** 31 }, '/rate_limit_max', /^Give at most 2147483647\.$/],
  ['a longer retention', { retention_days: 11 }, '/retention_days', /at most 10.*only lower RETENTION_DAYS/],
  ['a silence of less than a minute', { expect_every_seconds: 59 }, '/expect_every_seconds', /at least 60/],
  ['a silence of more than a year', { expect_every_seconds: 31_536_001 }, '/expect_every_seconds', /at most 31536000/],
  ['one agent outside a list', { agent_ids: randomUUID() }, '/agent_ids', /^Give a list\.$/],
  ['an invalid agent id', { agent_ids: [randomUUID(), 'x'] }, '/agent_ids/1', /^Give an id, such as/],
  ['an unknown agent', { agent_ids: [randomUUID()] }, '/agent_ids/0', /^No active agent has the id/],
  ['an unknown field', { 'colo/ur~': 'red' }, '/colo~1ur~0', /^This field is unknown; allowed: (id, )?name, .*\.$/],
];

describe('a new webhook is refused, and nothing is created, with', () => {
  const count = () => app.sql('select count(*) from webhooks');
  test.each([
    ...wrong,
    ['an empty secret', { secret: '' }, '/secret', /1 to 1024 characters/],
    ['a secret too long', { secret: 's'.repeat(1_025) }, '/secret', /1 to 1024 characters/],
    ['two secrets', { secret: 's', generate_secret: true }, '/generate_secret', /not both/],
    ['no name at all', { name: undefined }, '/name', /1 to 200/],
  ] satisfies typeof wrong)('%s', async (_what, bad, pointer, detail) => {
    const before = await count();
    const { status, body } = await create({ name: 'a', ...bad });
    expect([status, body.code]).toEqual([422, 'invalid_request']);
    expect(body.errors).toEqual([{ pointer, detail: expect.stringMatching(detail) }]);
    expect(await count()).toEqual(before);
  });

  test('several invalid fields, each with a pointer', async () => {
    const { body } = await create({ name: '', enabled: 1, one: 1, two: 2 });
    expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      '/name',
      '/enabled',
      '/one',
      '/two',
    ]);
  });

  test('a revoked agent', async () => {
    const agent = await addAgent(app);
    await operator.api('DELETE', `/api/v1/agents/${agent.id}`);
    expect((await create({ name: 'a', agent_ids: [agent.id] })).body.errors[0].pointer).toBe('/agent_ids/0');
  });
});

describe('an update', () => {
  test.each([
    ['its name', { name: 'renamed' }],
    ['its description', { description: 'what it is for' }],
    ['its headers', { signature_header: 'x-a', dedupe_header: 'x-b' }],
    ['its limits', { max_payload_bytes: 1, rate_limit_max: 1, retention_days: 1 }],
    ['that it is enabled', { enabled: false }],
  ])('of %s keeps the other fields', async (_what, change) => {
    const before = await made({
      description: 'old',
      signature_header: 'x-old',
      max_payload_bytes: 9,
      rate_limit_max: 9,
    });
    const { status, body } = await patch(before.id, change);
    expect([status, body]).toEqual([200, { ...before, ...change, updated_at: expect.any(String) }]);
    expect(body.updated_at > before.updated_at).toBe(true);
    expect(await show(before.id)).toEqual(body);
    expect(await lastAudit(app)).toMatchObject({ action: 'webhook.update', before: { name: 'test' }, after: change });
  });

  test('to null unsets the field', async () => {
    const given = { signature_header: 'x-a', dedupe_header: 'x-b', max_payload_bytes: 9, rate_limit_max: 9 };
    const { id } = await made({ ...given, retention_days: 9 });
    const unset = Object.fromEntries(Object.keys({ ...given, retention_days: 9 }).map((name) => [name, null]));
    expect((await patch(id, unset)).body).toMatchObject(unset);
  });

  test('takes effect with the next request', async () => {
    const { id } = await made({ secret: 's' });
    await patch(id, { signature_header: 'X-Own' });
    expect([await statusOfSending(id, 's'), await statusOfSending(id, 's', 'X-Own')]).toEqual([403, 202]);
    await patch(id, { enabled: false });
    expect(await statusOfSending(id, 's', 'X-Own')).toBe(410);
  });

  test('of agents subscribes exactly the given agents', async () => {
    const [one, two, three] = await Promise.all([addAgent(app), addAgent(app), addAgent(app)]);
    const { id } = await made({ agent_ids: [one.id, two.id] });
    expect((await patch(id, { agent_ids: [three.id, two.id] })).body.agent_ids.sort()).toEqual(
      [two.id, three.id].sort(),
    );
    expect((await patch(id, { agent_ids: [] })).body.agent_ids).toEqual([]);
  });

  test.each([...wrong, ['a secret', { secret: 's' }, '/secret', /rotate-secret/]] satisfies typeof wrong)(
    'to %s is refused, and nothing changes',
    async (_what, bad, pointer, detail) => {
      const before = await made({});
      const { status, body } = await patch(before.id, { description: 'changed', ...bad });
      expect([status, body.errors]).toEqual([422, [{ pointer, detail: expect.stringMatching(detail) }]]);
      expect(await show(before.id)).toEqual(before);
    },
  );
});

describe('a new secret', () => {
  test('is generated and shown once, and the previous one is valid during its overlap', async () => {
    const { id, secret } = await made({ generate_secret: true });
    const { status, body } = await operator.api('POST', `${PATH}/${id}/rotate-secret`, { overlap_seconds: 600 });
    expect([status, body.secret]).toEqual([200, expect.stringMatching(/^[0-9a-f]{64}$/)]);
    expect(Math.abs(Date.parse(body.previous_secret_expires_at) - Date.now() - 600_000)).toBeLessThan(30_000);
    expect([await statusOfSending(id, body.secret), await statusOfSending(id, secret)]).toEqual([202, 202]);
    expect(await show(id)).not.toHaveProperty('secret');
    expect(await lastAudit(app)).toMatchObject({ action: 'webhook.rotate_secret' });
  });

  test('without an overlap invalidates the previous one at once; an empty body is sufficient', async () => {
    const { id, secret } = await made({ generate_secret: true });
    const { body } = await operator.api('POST', `${PATH}/${id}/rotate-secret`);
    expect(body.previous_secret_expires_at).toBeNull();
    expect([await statusOfSending(id, body.secret), await statusOfSending(id, secret)]).toEqual([202, 403]);
  });

  test('given by the operator is not returned', async () => {
    const { id } = await made({});
    const { text } = await operator.api('POST', `${PATH}/${id}/rotate-secret`, { secret: 'geheim' });
    expect(text).not.toContain('geheim');
    expect([await statusOfSending(id, 'geheim'), await statusOfSending(id, null)]).toEqual([202, 403]);
  });

  test.each([
    ['an overlap before now', { overlap_seconds: -1 }, '/overlap_seconds'],
    ['an endless overlap', { overlap_seconds: 31_536_001 }, '/overlap_seconds'],
    ['an empty secret', { secret: '' }, '/secret'],
    ['an unknown field', { force: true }, '/force'],
  ])('with %s is refused', async (_what, body, pointer) => {
    const { id } = await made({});
    const answer = await operator.api('POST', `${PATH}/${id}/rotate-secret`, body);
    expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, pointer]);
    expect((await show(id)).has_secret).toBe(false);
  });
});

describe('the list of secrets', () => {
  const secretsOf = async (id: string) => (await viewer.api('GET', `${PATH}/${id}/secrets`)).body.items;

  test('shows the uses of each, so that an unused old secret is visible', async () => {
    const { id } = await made({ secret: 'old' });
    for (let i = 0; i < 3; i++) await statusOfSending(id, 'old');
    await operator.api('POST', `${PATH}/${id}/rotate-secret`, { secret: 'new', overlap_seconds: 600 });
    await statusOfSending(id, 'old');
    await statusOfSending(id, 'new');
    await statusOfSending(id, 'wrong');
    await until(async () => (await secretsOf(id)).every(({ uses }: { uses: number }) => uses > 0));
    expect(await secretsOf(id)).toEqual([
      { slot: 'current', uses: 1, expires_at: null, created_at: expect.any(String), last_used_at: expect.any(String) },
      {
        slot: 'previous',
        uses: 4,
        expires_at: expect.any(String),
        created_at: expect.any(String),
        last_used_at: expect.any(String),
      },
    ]);
  });
});

describe('a test request', () => {
  const tested = async (id: string, body?: object) => operator.api('POST', `${PATH}/${id}/test`, body);

  test.each([
    ['a secret', { secret: 's' }],
    ['a secret and a header of its own', { secret: 's', signature_header: 'X-Own' }],
    ['no secret', {}],
  ])('of a webhook with %s is really signed, and stored like any other', async (_what, given) => {
    const { id } = await made(given);
    const { status, body } = await tested(id, { body: 'a=1', content_type: 'application/x-www-form-urlencoded' });
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 202, answer: { webhook_id: id, bytes: 3 } });
    expect(body.duration_ms).toBeGreaterThan(0);
    const event = (await viewer.api('GET', `/api/v1/events/${body.answer.id}`)).body;
    expect(event).toMatchObject({ webhook_id: id, content_type: 'application/x-www-form-urlencoded', bytes: 3 });
  });

  test('returns the reason why a sender would be refused', async () => {
    const { id } = await made({ enabled: false });
    expect((await tested(id)).body).toMatchObject({ status: 410, answer: { code: 'webhook_disabled' } });
    const small = await made({ max_payload_bytes: 2 });
    expect((await tested(small.id)).body).toMatchObject({ status: 413, answer: { code: 'payload_too_large' } });
  });

  test('has the given headers, which do not replace those of the signature', async () => {
    const headers = { 'X-Kind': 'order', 'x-hub-signature-256': 'sha256=00' };
    const { body } = await tested((await made({ secret: 's' })).id, { body: '{"a":1}', headers });
    expect(body.status).toBe(202);
    const event = (await viewer.api('GET', `/api/v1/events/${body.answer.id}`)).body;
    expect(event.headers).toMatchObject({ 'x-kind': 'order', 'content-type': 'application/json' });
  });

  test.each([
    ['a body too long', { body: 'x'.repeat(65_537) }, '/body'],
    ['a content type of two lines', { content_type: 'a\r\nb: c' }, '/content_type'],
    ['a header of the connection', { headers: { 'content-length': '1' } }, HEADERS],
    ['a header of proxies', { headers: { 'X-Forwarded-For': '192.0.2.1' } }, HEADERS],
    ['a header with a line end', { headers: { 'x-a': 'b\r\nx-c: d' } }, HEADERS],
    ['a header that is not a name', { headers: { 'x a': 'b' } }, HEADERS],
  ])('with %s is refused', async (_what, given, pointer) => {
    const { status, body } = await tested((await made({})).id, given);
    expect([status, body.errors[0].pointer]).toEqual([422, pointer]);
  });
});

describe('the list', () => {
  test('finds by part of the name, with pattern characters taken literally', async () => {
    const { id } = await made({ name: '100%_sure' });
    const found = async (q: string) =>
      (await viewer.api('GET', `${PATH}?q=${encodeURIComponent(q)}`)).body.items.map((item: { id: string }) => item.id);
    expect([await found('0%_S'), await found('0%%s')]).toEqual([[id], []]);
  });

  test('filters by enabled', async () => {
    const { id } = await made({ name: 'filtered', enabled: false });
    const names = async (enabled: boolean) =>
      (await viewer.api('GET', `${PATH}?q=filtered&enabled=${enabled}`)).body.items.map(
        (item: { id: string }) => item.id,
      );
    expect([await names(false), await names(true)]).toEqual([[id], []]);
  });

  test('shows an agent only its own webhooks, and itself as their only agent', async () => {
    const [agent, other] = await Promise.all([addAgent(app), addAgent(app)]);
    const { id } = await made({ agent_ids: [agent.id, other.id] });
    await made({ agent_ids: [other.id] });
    const { body } = await request(`${app.url}${PATH}`, agent.token);
    expect(body.items).toMatchObject([{ id, agent_ids: [agent.id] }]);
    expect((await request(`${app.url}${PATH}/${id}`, agent.token)).body).toEqual(body.items[0]);
  });
});

describe('a deleted webhook', () => {
  test('is not found by a change, at once', async () => {
    const { id } = await made({});
    expect((await operator.api('DELETE', `${PATH}/${id}`)).status).toBe(204);
    // A change waits up to a second for every process; without a change there is no wait, which would not end here.
    holdTimers(1_000);
    for (const answer of [patch(id, {}), operator.api('DELETE', `${PATH}/${id}`)])
      expect((await answer).body).toMatchObject({ status: 404, code: 'webhook_unknown' });
  });

  test('accepts no more requests and is in no list', async () => {
    const { id } = await made({ name: 'short-lived' });
    await operator.api('DELETE', `${PATH}/${id}`);
    expect(await statusOfSending(id, null)).toBe(404);
    expect((await viewer.api('GET', `${PATH}?q=short-lived`)).body.items).toEqual([]);
    expect(await lastAudit(app)).toMatchObject({ action: 'webhook.delete', target: { id }, after: null });
  });
});
