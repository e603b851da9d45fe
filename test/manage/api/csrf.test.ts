/** CSRF: every way in which another site could request a change, at one operation. access.test.ts covers each operation. */
import { beforeAll, describe, expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson, csrfToken, request } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const own = 'https://weir.example.org';
const allowed = 'https://console.example.org';
const app = shared(() => startTestApp({ PUBLIC_URL: own, CORS_ORIGINS: allowed }));
/** May do everything. */
const target = shared(() => addPerson(app, 'administrator'));
let token: string;
let tokenOfAnother: string;
let cookie: string;
beforeAll(async () => {
  cookie = target.cookie;
  token = await csrfToken(app.url, cookie);
  tokenOfAnother = await csrfToken(app.url, (await addPerson(app, 'administrator')).cookie);
});

type Fields = Record<string, string>;

/** Everything a browser or a script may send, and what is wrong with it. */
const forgeries: [string, () => Fields][] = [
  ['no token', () => ({ origin: own })],
  ['no token and no origin, as an old browser', () => ({})],
  ['an empty token', () => ({ origin: own, 'x-csrf-token': '' })],
  ['a wrong token', () => ({ origin: own, 'x-csrf-token': 'A'.repeat(43) })],
  ['a part of the token', () => ({ origin: own, 'x-csrf-token': token.slice(0, -1) })],
  ['the token in other letters', () => ({ origin: own, 'x-csrf-token': swapCase(token) })],
  ['the token of another session', () => ({ origin: own, 'x-csrf-token': tokenOfAnother })],
  ['the session id', () => ({ origin: own, 'x-csrf-token': target.sessionId })],
  ['the token, from another site', () => ({ origin: 'https://elsewhere.example', 'x-csrf-token': token })],
  ['the token, from a sandboxed frame', () => ({ origin: 'null', 'x-csrf-token': token })],
  ['the token, from a subdomain', () => ({ origin: 'https://a.weir.example.org', 'x-csrf-token': token })],
  ['the token, from another port', () => ({ origin: `${own}:8443`, 'x-csrf-token': token })],
  ['the token, from http', () => ({ origin: own.replace('https', 'http'), 'x-csrf-token': token })],
  ['the token, from our name as a prefix', () => ({ origin: `${own}.evil.example`, 'x-csrf-token': token })],
  ['the token, cross-site by Sec-Fetch-Site', () => ({ 'sec-fetch-site': 'cross-site', 'x-csrf-token': token })],
  ['the token, same-site by Sec-Fetch-Site', () => ({ 'sec-fetch-site': 'same-site', 'x-csrf-token': token })],
  ['the token as a cookie alone', () => ({ origin: own, cookie: `${cookie}; csrf=${token}` })],
  ['a form', () => ({ 'content-type': 'application/x-www-form-urlencoded', origin: 'https://elsewhere.example' })],
  [
    'a form with files',
    () => ({ 'content-type': 'multipart/form-data; boundary=x', origin: 'https://elsewhere.example' }),
  ],
  ['a form of plain text', () => ({ 'content-type': 'text/plain', origin: 'https://elsewhere.example' })],
  ['a form without an origin', () => ({ 'content-type': 'text/plain', 'sec-fetch-site': 'cross-site' })],
];

const swapCase = (text: string) =>
  text.replace(/[a-z]/gi, (letter) => (letter < 'a' ? letter.toLowerCase() : letter.toUpperCase()));

/** A change that succeeds whenever it is permitted. */
const change = (fields: Fields) => request(`${app.url}/api/v1/webhooks`, 'POST', '{"name":"a"}', fields);

const webhooks = async () =>
  (await app.sql<{ count: number }>('select count(*)::int as count from webhooks'))[0]!.count;

describe('a change with the session cookie', () => {
  test.each(forgeries)('and %s is refused, and nothing is done', async (_what, fields) => {
    const before = await webhooks();
    const { status, body } = await change({ cookie, ...fields() });
    expect([status, body.code]).toEqual([403, 'csrf_refused']);
    expect(await webhooks()).toBe(before);
    expect((await request(`${app.url}/api/v1/account`, 'GET', undefined, { cookie })).status).toBe(200);
  });

  test.each<[string, Fields]>([
    ['a page of Weir', { origin: own }],
    ['a page of CORS_ORIGINS', { origin: allowed }],
    ['a page of Weir whose browser sends no origin', { 'sec-fetch-site': 'same-origin' }],
    ['the address bar', { 'sec-fetch-site': 'none' }],
    ['a script without a browser', {}],
  ])('and its CSRF token, from %s, is made', async (_what, fields) => {
    expect((await change({ cookie, 'x-csrf-token': token, ...fields })).status).toBe(201);
  });

  test('and an invalid bearer token is unauthenticated', async () => {
    const fields = { cookie, authorization: 'Bearer wu_nonsense', origin: own, 'x-csrf-token': token };
    const { status, body } = await change(fields);
    expect([status, body.code]).toEqual([401, 'unauthenticated']);
  });
});

test('a change with an API token needs no CSRF token: no browser sends an API token by itself', async () => {
  const fields = { authorization: `Bearer ${target.token}`, origin: 'https://elsewhere.example' };
  expect((await change(fields)).status).toBe(201);
});

describe('a change without authentication', () => {
  const signIn = (fields: Fields) =>
    request(`${app.url}/api/v1/session`, 'POST', { email: 'nobody@example.org', password: 'x' }, fields);

  test.each<[string, Fields]>([
    ['another site', { origin: 'https://elsewhere.example' }],
    ['a sandboxed frame', { origin: 'null' }],
    ['another site by Sec-Fetch-Site', { 'sec-fetch-site': 'cross-site' }],
    ['a form of another site', { origin: 'https://elsewhere.example', 'content-type': 'text/plain' }],
  ])('from %s is refused', async (_where, fields) => {
    const { status, body } = await signIn(fields);
    expect([status, body.code]).toEqual([403, 'csrf_refused']);
  });

  test.each<[string, Fields]>([
    ['a page of Weir', { origin: own }],
    ['a script without a browser', {}],
  ])('from %s is processed', async (_where, fields) => {
    const { status, body } = await signIn(fields);
    expect([status, body.code]).toEqual([401, 'sign_in_failed']);
  });
});

test('a read needs no CSRF token, and returns nothing to a page of another site', async () => {
  const { status, headers } = await request(`${app.url}/api/v1/account`, 'GET', undefined, {
    cookie,
    origin: 'https://elsewhere.example',
  });
  expect([status, headers.get('access-control-allow-origin')]).toEqual([200, null]);
});
