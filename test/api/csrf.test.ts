/** Changes that a cookie vouches for: every operation that makes one, by every way in which another site could ask for it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operationRoutes } from '../../server/api/routes.ts';
import { startTestApp, type TestApp } from '../helpers/app.ts';
import { addPerson, csrfToken, request, type TestPerson } from '../helpers/people.ts';

const own = 'https://weir.example.org';
const allowed = 'https://console.example.org';
let app: TestApp;
/** May do everything; its session is only ever asked in vain. */
let target: TestPerson;
let token: string;
let tokenOfAnother: string;
let cookie: string;
beforeAll(async () => {
  app = await startTestApp({ PUBLIC_URL: own, CORS_ORIGINS: allowed });
  target = await addPerson(app, 'administrator');
  cookie = target.cookie;
  token = await csrfToken(app.url, cookie);
  tokenOfAnother = await csrfToken(app.url, (await addPerson(app, 'administrator')).cookie);
});
afterAll(() => app.stop());

const id = '00000000-0000-7000-8000-000000000000';
const changes = operationRoutes
  .map(([method, path, name, access]) => ({ method: method as string, path: path.replace(':id', id), name, access }))
  .filter(({ method }) => method !== 'GET');
const signedIn = changes.filter(({ access }) => access !== 'anyone');

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

const entries = async () =>
  (await app.database.query<{ count: number }>({ text: 'select count(*)::int as count from audit_log' }))[0]!.count;

describe.each(signedIn)('$method $path', ({ method, path }) => {
  test.each(forgeries)('with the cookie and %s is refused, and nothing is done', async (_what, fields) => {
    const before = await entries();
    const { status, body } = await request(app.url + path, method, '{}', { cookie, ...fields() });
    expect([status, body.code]).toEqual([403, 'csrf_refused']);
    expect(await entries()).toBe(before);
    expect((await request(`${app.url}/api/v1/account`, 'GET', undefined, { cookie })).status).toBe(200);
  });

  test.each<[string, (token: string) => Fields]>([
    ['from a page of Weir', (token) => ({ origin: own, 'x-csrf-token': token })],
    ['from a page of CORS_ORIGINS', (token) => ({ origin: allowed, 'x-csrf-token': token })],
    [
      'from a page of Weir whose browser sends no origin',
      (token) => ({ 'sec-fetch-site': 'same-origin', 'x-csrf-token': token }),
    ],
    ['from a script without a browser', (token) => ({ 'x-csrf-token': token })],
  ])('with the cookie and its token, %s, is looked at', async (_what, fields) => {
    const person = await addPerson(app, 'administrator');
    const given = fields(await csrfToken(app.url, person.cookie));
    const { body } = await request(app.url + path, method, '{}', { cookie: person.cookie, ...given });
    expect(['csrf_refused', 'unauthenticated', 'forbidden']).not.toContain(body?.code);
  });

  test('with an API token needs none of it: no browser sends one by itself', async () => {
    const person = await addPerson(app, 'administrator');
    const fields = { authorization: `Bearer ${person.token}`, origin: 'https://elsewhere.example' };
    const { body } = await request(app.url + path, method, '{}', fields);
    expect(['csrf_refused', 'unauthenticated', 'forbidden']).not.toContain(body?.code);
  });

  test('with the cookie and a bearer that is not in force is nobody’s', async () => {
    const fields = { cookie, authorization: 'Bearer wu_nonsense', origin: own, 'x-csrf-token': token };
    const { status, body } = await request(app.url + path, method, '{}', fields);
    expect([status, body.code]).toEqual([401, 'unauthenticated']);
  });
});

describe.each(changes.filter(({ access }) => access === 'anyone'))('$method $path, for anyone,', ({ method, path }) => {
  test.each<[string, Fields]>([
    ['another site', { origin: 'https://elsewhere.example' }],
    ['a sandboxed frame', { origin: 'null' }],
    ['another site by Sec-Fetch-Site', { 'sec-fetch-site': 'cross-site' }],
    ['a form of another site', { origin: 'https://elsewhere.example', 'content-type': 'text/plain' }],
  ])('from %s is refused', async (_where, fields) => {
    const { status, body } = await request(app.url + path, method, '{}', fields);
    expect([status, body.code]).toEqual([403, 'csrf_refused']);
  });
});

test('reading needs no token, and does not tell another site’s page anything', async () => {
  const { status, headers } = await request(`${app.url}/api/v1/account`, 'GET', undefined, {
    cookie,
    origin: 'https://elsewhere.example',
  });
  expect([status, headers.get('access-control-allow-origin')]).toEqual([200, null]);
});
