import { describe, expect, test } from 'vitest';
import { DAY_MS } from '../../../../server/base/time/durations.ts';
import { TOKENS_MAX } from '../../../../server/manage/api/tokens/token-changes.ts';
import { createCredential, parseCredential } from '../../../../server/model/credential.ts';
import { startTestApp, type TestApp } from '../../../helpers/app.ts';
import {
  type Answer,
  addPerson,
  leaksIn,
  PASSWORD,
  request,
  type TestPerson,
  withoutNulls,
} from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(startTestApp);
/** Another process on the same database. */
const second = shared(() => startTestApp({}, app));
const viewer = shared(() => addPerson(app, 'viewer', PASSWORD));
const operator = shared(() => addPerson(app, 'operator', PASSWORD));
const administrator = shared(() => addPerson(app, 'administrator', PASSWORD));

/** A request with a token, at any process. */
const use = (token: string, path = '/api/v1/account', method = 'GET', body?: unknown, { url } = app) =>
  request(url + path, method, body, { authorization: `Bearer ${token}` });

type Made = { id: string; token: string; expires_at: string };

async function make(person: TestPerson, input: object = {}): Promise<Made> {
  const { status, body } = await person.api('POST', '/api/v1/tokens', { name: 'ci', ...input });
  expect([status, body.errors]).toEqual([201, undefined]);
  return body;
}

/** Creates a token with the cookie session, including administrator tokens and tokens without expiry. */
async function makeBySession(person: TestPerson, given: object): Promise<Made> {
  const input = { name: 'ci', current_password: PASSWORD, ...given };
  const { status, body } = await person.browse('POST', '/api/v1/tokens', input);
  expect([status, body.errors]).toEqual([201, undefined]);
  return body;
}

const inDays = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString();
const daysUntil = (time: string) => (new Date(time).getTime() - Date.now()) / DAY_MS;

async function entriesOf(id: string): Promise<{ action: string; actor: object; before: object; after: object }[]> {
  const { body } = await administrator.api('GET', `/api/v1/audit?target_id=${id}`);
  return body.items;
}

describe('a new token', () => {
  test('is shown once, with its Location, and works at every process at once', async () => {
    const { status, headers, body } = await operator.api('POST', '/api/v1/tokens', { name: '  deploy — 日本 ' });
    expect([status, headers.get('location')]).toEqual([201, `/api/v1/tokens/${body.id}`]);
    expect(headers.get('cache-control')).toBe('no-store');
    const { token, ...rest } = body;
    expect(parseCredential('wu', token)).not.toBeNull();
    expect(withoutNulls(rest)).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      user_id: operator.id,
      user_email: operator.email,
      name: 'deploy — 日本',
      role: 'operator',
      state: 'active',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      expires_at: expect.any(String),
    });
    expect(daysUntil(rest.expires_at)).toBeCloseTo(90, 1);
    for (const place of [app, second])
      expect((await use(token, undefined, undefined, undefined, place)).body).toMatchObject({ email: operator.email });
    const shown = await operator.api('GET', headers.get('location')!);
    expect(shown.body).toEqual({ ...rest, last_used_at: expect.any(String) });
    const listed = await operator.api('GET', '/api/v1/tokens');
    expect(listed.body.items[0]).toEqual(shown.body);
    expect(shown.text + listed.text).not.toContain(token.slice(16));
  });

  test('is stored only as a hash', async () => {
    const { id, token } = await make(viewer);
    const [stored] = await app.sql<{ row: string }>(
      'select to_jsonb(t)::text as row from api_tokens t where id = $1',
      id,
    );
    expect(stored!.row).toContain(parseCredential('wu', token)!.secretHash.toString('hex'));
    expect(stored!.row).not.toContain(token.slice(16));
  });

  test.each([
    ['a number of days', { expires_in_days: 1 }, 1],
    ['the greatest number of days', { expires_in_days: 3650 }, 3650],
    ['a time', { expires_at: inDays(10) }, 10],
    ['a time of another zone', { expires_at: inDays(10).replace('Z', '+00:00') }, 10],
    ['no end, by days', { expires_in_days: null }, null],
    ['no end, by time', { expires_at: null }, null],
  ])('accepts %s', async (_what, input, days) => {
    const { expires_at } = await makeBySession(operator, input);
    if (days === null) expect(expires_at).toBeNull();
    else expect(daysUntil(expires_at)).toBeCloseTo(days, 1);
  });

  test.each([
    ['no name', { name: undefined }, '/name', /1 to 200/],
    ['a name too long', { name: 'x'.repeat(201) }, '/name', /1 to 200/],
    ['an unknown role', { role: 'root' }, '/role', /viewer, operator, administrator/],
    ['a role above one’s own', { role: 'administrator' }, '/role', /Your role is operator/],
    ['no days', { expires_in_days: 0 }, '/expires_in_days', /1 to 3650/],
    ['too many days', { expires_in_days: 3651 }, '/expires_in_days', /1 to 3650/],
    ['half a day', { expires_in_days: 0.5 }, '/expires_in_days', /whole/],
    ['a time gone by', { expires_at: inDays(-1) }, '/expires_at', /future/],
    ['a time too far off', { expires_at: inDays(3651) }, '/expires_at', /3650/],
    ['an invalid time', { expires_at: 'tomorrow' }, '/expires_at', /2030/],
    ['both ends', { expires_at: inDays(1), expires_in_days: 1 }, '/expires_in_days', /not both/],
    ['a field that does not exist', { scope: 'all' }, '/scope', /unknown/],
  ])('with %s is refused, with a pointer to the field', async (_what, input, pointer, detail) => {
    const before = (await operator.api('GET', '/api/v1/tokens?limit=200')).body.items.length;
    const { status, body } = await operator.api('POST', '/api/v1/tokens', { name: 'ci', ...input });
    expect([status, body.code]).toEqual([422, 'invalid_request']);
    expect(body.errors).toEqual([{ pointer, detail: expect.stringMatching(detail) }]);
    expect((await operator.api('GET', '/api/v1/tokens?limit=200')).body.items).toHaveLength(before);
  });

  test('is refused at the maximum number of tokens of a user, for concurrent requests too', async () => {
    const person = await addPerson(app, 'viewer');
    await app.sql(
      `insert into api_tokens (id, user_id, name, role, lookup_id, secret_hash)
             select gen_random_uuid(), $1::uuid, 'many', 'viewer', left(md5(n::text || $1::text), 12), decode(repeat('00', 32), 'hex')
             from generate_series(1, $2) n`,
      person.id,
      TOKENS_MAX - 4,
    );
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => person.api('POST', '/api/v1/tokens', { name: 'one more' })),
    );
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([201, 201, 201, 409, 409, 409, 409, 409]);
    expect(answers.find(({ status }) => status === 409)!.body.code).toBe('tokens_too_many');
  });
});

describe('the role of a token', () => {
  test.each([
    ['administrator', 'viewer'],
    ['administrator', 'operator'],
    ['administrator', 'administrator'],
    ['operator', 'viewer'],
  ] as const)('of an %s can be %s, and is used as such', async (owner, role) => {
    const person = { administrator, operator }[owner];
    const { token } = await makeBySession(person, { role });
    expect((await use(token)).body).toMatchObject({ email: person.email, role });
    const audit = await use(token, '/api/v1/audit');
    expect(audit.status).toBe(role === 'administrator' ? 200 : 403);
  });

  test('is lowered with the next request at every process when the role of the user is lowered', async () => {
    const person = await addPerson(app, 'administrator', PASSWORD);
    const { token } = await makeBySession(person, { role: 'administrator' });
    const roleAt = async (place: TestApp) => (await use(token, undefined, undefined, undefined, place)).body.role;
    expect([await roleAt(app), await roleAt(second)]).toEqual(['administrator', 'administrator']);
    await app.sql(`update users set role = 'viewer' where id = $1`, person.id);
    expect([await roleAt(app), await roleAt(second)]).toEqual(['viewer', 'viewer']);
  });
});

describe('a token created with a token', () => {
  const madeBy = (token: string, input: object = {}) =>
    use(token, '/api/v1/tokens', 'POST', { name: 'child', ...input });

  test('has the role of its creator and expires with it by default, and cannot outlive it', async () => {
    const parent = await make(administrator, { expires_in_days: 5, role: 'operator' });
    const child = await madeBy(parent.token);
    const { expires_at } = parent;
    expect(child.body).toMatchObject({ expires_at, role: 'operator', user_id: administrator.id });
    for (const [input, pointer] of [
      [{ expires_in_days: 6 }, '/expires_in_days'],
      [{ expires_at: inDays(6) }, '/expires_at'],
    ] as const) {
      const { status, body } = await madeBy(parent.token, input);
      expect([status, body.errors[0].pointer]).toEqual([422, pointer]);
      expect(body.errors[0].detail).toContain(parent.expires_at);
    }
    expect((await madeBy(parent.token, { expires_in_days: 4 })).status).toBe(201);
  });

  test('is revoked with its creator, and so are tokens that it created; other tokens stay valid', async () => {
    const parent = await make(operator);
    const child = (await madeBy(parent.token)).body;
    const grandchild = (await madeBy(child.token)).body;
    const other = await make(operator);
    expect((await operator.api('DELETE', `/api/v1/tokens/${parent.id}`)).status).toBe(204);
    const statuses = await Promise.all(
      [parent, child, grandchild, other].map(async (each) => (await use(each.token)).status),
    );
    expect(statuses).toEqual([401, 401, 401, 200]);
    const [entry] = await entriesOf(parent.id);
    expect((entry!.after as { also_revoked: string[] }).also_revoked.sort()).toEqual([child.id, grandchild.id].sort());
  });

  test('is not created while its creator is being revoked', async () => {
    const parent = await make(operator);
    const asked = Array.from({ length: 12 }, () => madeBy(parent.token));
    await operator.api('DELETE', `/api/v1/tokens/${parent.id}`);
    const made = (await Promise.all(asked)).filter(({ status }) => status === 201);
    for (const { body } of made) expect((await use(body.token)).status).toBe(401);
  });
});

describe('a revoked token', () => {
  test('is refused from the next request at every process, and remains in the list', async () => {
    const { id, token } = await make(viewer);
    for (const place of [app, second]) expect((await use(token, undefined, 'GET', undefined, place)).status).toBe(200);
    const { status, text } = await viewer.api('DELETE', `/api/v1/tokens/${id}`);
    expect([status, text]).toEqual([204, '']);
    for (const place of [app, second]) expect((await use(token, undefined, 'GET', undefined, place)).status).toBe(401);
    expect((await viewer.api('GET', `/api/v1/tokens/${id}`)).body).toMatchObject({
      state: 'revoked',
      revoked_at: expect.any(String),
    });
  });

  test('can be revoked again without another audit entry', async () => {
    const { id } = await make(viewer);
    for (let i = 0; i < 3; i++) expect((await viewer.api('DELETE', `/api/v1/tokens/${id}`)).status).toBe(204);
    expect((await entriesOf(id)).map(({ action }) => action)).toEqual(['token.revoke', 'token.create']);
    const [entry] = await entriesOf(id);
    expect(entry).toMatchObject({ before: { state: 'active' }, after: { state: 'revoked', also_revoked: [] } });
  });
});

test('an expired token is refused', async () => {
  const { id, token } = await make(viewer);
  await app.sql('update api_tokens set expires_at = now() where id = $1', id);
  expect((await use(token)).status).toBe(401);
  expect((await viewer.api('GET', `/api/v1/tokens/${id}`)).body.state).toBe('expired');
});

test('a token with the secret of another one and correct check digits is refused', async () => {
  const { id, token } = await make(viewer);
  const { text, lookupId } = createCredential('wu');
  const sql = 'update api_tokens set lookup_id = $2 where id = $1 returning 1';
  expect(await app.sql(sql, id, lookupId)).toHaveLength(1);
  expect([(await use(token)).status, (await use(text)).status]).toEqual([401, 401]);
});

test('a token of another user is also refused to a token of an administrator with a lower role', async () => {
  const { id } = await make(operator);
  const { token } = await make(administrator, { role: 'operator' });
  for (const method of ['GET', 'DELETE']) expect((await use(token, `/api/v1/tokens/${id}`, method)).status).toBe(404);
  expect((await use(token, '/api/v1/tokens?all=true')).status).toBe(403);
});

describe('the list', () => {
  const owners = ({ body }: Answer) => new Set(body.items.map((item: { user_id: string }) => item.user_id));

  test('contains only tokens of the user, for any role', async () => {
    for (const person of [viewer, operator, administrator])
      expect(owners(await person.api('GET', '/api/v1/tokens'))).toEqual(new Set([person.id]));
    for (const id of [viewer.id, viewer.id.toUpperCase()])
      expect((await viewer.api('GET', `/api/v1/tokens?user_id=${id}`)).status).toBe(200);
  });

  test('of another user or of all users is for administrators', async () => {
    for (const query of [`user_id=${viewer.id}`, 'all=true'])
      expect((await operator.api('GET', `/api/v1/tokens?${query}`)).body).toMatchObject({
        status: 403,
        code: 'forbidden',
      });
    expect(owners(await administrator.api('GET', `/api/v1/tokens?user_id=${viewer.id}`))).toEqual(new Set([viewer.id]));
    const all = owners(await administrator.api('GET', '/api/v1/tokens?all=true&limit=200'));
    for (const { id } of [viewer, operator, administrator]) expect(all).toContain(id);
  });

  test('refuses the cursor of a deleted token', async () => {
    const person = await addPerson(app, 'viewer');
    const { id } = await make(person);
    const next = () => person.api('GET', `/api/v1/tokens?cursor=${id}`);
    expect((await next()).body.items).toHaveLength(1);
    await app.sql('delete from api_tokens where id = $1', id);
    expect(await next()).toMatchObject({ status: 422, body: { errors: [{ parameter: 'cursor' }] } });
  });
});

test('no log line contains any part of a token, at level trace, for any error', async () => {
  const { id, token } = await make(operator);
  const revoked = await make(operator);
  await operator.api('DELETE', `/api/v1/tokens/${revoked.id}`);
  const mistyped = `${token.slice(0, -1)}${token.endsWith('a') ? 'b' : 'a'}`;
  const tokens = [token, revoked.token, mistyped, createCredential('wu').text, createCredential('wa').text];
  const everywhere = async () => {
    for (const place of [app, second])
      for (const each of tokens) {
        await use(each, '/api/v1/account', 'GET', undefined, place);
        await use(each, '/api/v1/tokens', 'POST', { name: each, role: each, [each]: each }, place);
        await use(each, `/api/v1/tokens/${id}`, 'GET', undefined, place);
        await use(each, `/api/v1/events?cursor=x`, 'GET', undefined, place);
        await use(each, '/api/v1/agent/me', 'GET', undefined, place);
        await use(each, '/api/v1/audit', 'PATCH', {}, place);
        await request(`${place.url}/api/v1/account`, 'GET', undefined, { cookie: `weir_session=${each}` });
        await request(`${place.url}/api/v1/account`, 'GET', undefined, { authorization: each });
      }
  };
  await everywhere();
  await app.cutOff();
  await everywhere();
  await app.restore();
  expect(app.logLines.length).toBeGreaterThan(50);
  expect(leaksIn([...app.logLines, ...second.logLines], tokens)).toEqual([]);
});
