import { randomUUID } from 'node:crypto';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { pageRoutes } from '../../../server/manage/api/routes.ts';
import { roles } from '../../../server/model/users.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, csrfToken, type TestPerson } from '../../helpers/people.ts';
import { RawClient, rawRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startPagesApp);
let people: Record<string, TestPerson>;
beforeAll(async () => {
  const made = await Promise.all(roles.map((role) => addPerson(app, role)));
  people = Object.fromEntries(made.map((person) => [person.role, person]));
});

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(app.url + path, { headers: { cookie: people.administrator!.cookie, ...headers }, redirect: 'manual' });

async function post(path: string, fields: Record<string, string>, headers: Record<string, string> = {}) {
  const { cookie } = people.administrator!;
  const csrf = await csrfToken(app.url, cookie);
  return fetch(app.url + path, {
    method: 'POST',
    body: new URLSearchParams({ csrf, ...fields }),
    headers: { cookie, origin: app.url, ...headers },
    redirect: 'manual',
  });
}

describe('without a session', () => {
  test('a page redirects to the sign-in page and back', async () => {
    const { status, headers } = await get('/events?q=a', { cookie: '' });
    expect([status, headers.get('location')]).toEqual([303, '/sign-in?return_to=%2Fevents%3Fq%3Da']);
  });

  test.each([
    ['localhost', 303],
    ['[::1]', 303],
    ['127.0.0.1', 200],
    ['weir.example.org', 200],
    ['', 200],
  ])('the sign-in page at the host %j: %i', async (name, status) => {
    const { port } = new URL(app.settings.PUBLIC_URL);
    const host = name === '' ? '' : `${name}:${port}`;
    const answer = await rawRequest(
      app.port,
      `GET /sign-in?return_to=%2Fevents HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
    );
    const location = status === 303 ? `${app.settings.PUBLIC_URL}/sign-in?return_to=%2Fevents` : undefined;
    expect([answer?.status, answer?.headers.location]).toEqual([status, location]);
  });

  test('an htmx request reloads the page', async () => {
    const { status, headers } = await get('/events', { cookie: '', 'hx-request': 'true' });
    expect([status, headers.get('hx-redirect')]).toEqual([204, '/sign-in?return_to=%2Fevents']);
  });
});

test.each([
  ['is led back to the page it was on', '/webhooks/new?a=b', '/sign-in?return_to=%2Fwebhooks%2Fnew%3Fa%3Db'],
  ['of another site is led to the overview', 'https://evil.example/', '/sign-in'],
  ['from an unknown page is led to the overview', '', '/sign-in'],
])('after the session of a form has ended: %s', async (_, from, to) => {
  const referer = from.startsWith('/') ? app.url + from : from;
  const { status, headers } = await fetch(`${app.url}/webhooks/new`, {
    method: 'POST',
    body: new URLSearchParams({ name: 'lost' }),
    headers: { origin: app.url, referer },
    redirect: 'manual',
  });
  expect([status, headers.get('location')]).toEqual([303, to]);
});

describe('an error of a page', () => {
  const html = 'text/html,application/xhtml+xml';

  test.each([
    ['nothing is there', '/nowhere', 404, 'There is nothing at this path.'],
    [
      'it is where a form is sent',
      '/webhooks/00000000-0000-4000-8000-000000000000/rotate',
      405,
      'accepts only form submissions',
    ],
  ])('is a page for a browser and a problem for a program: %s', async (_, path, status, sentence) => {
    const page = await get(path, { accept: html });
    expect([page.status, page.headers.get('content-type')]).toEqual([status, 'text/html; charset=utf-8']);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const text = await page.text();
    expect(text).toContain(sentence);
    expect(text).toContain('href="/webhooks"');
    expect(await (await get(path, { accept: html, cookie: '' })).text()).not.toContain('href="/webhooks"');
    const problem = await get(path, { accept: '*/*' });
    expect([problem.status, problem.headers.get('content-type')]).toEqual([status, 'application/problem+json']);
  });

  test('below /api/ and /in/ is a problem for every client', async () => {
    for (const path of ['/api/v1/nothing', '/in/nothing'])
      expect((await get(path, { accept: html })).headers.get('content-type')).toBe('application/problem+json');
  });

  test('of an unavailable database is a page that can be reloaded', async () => {
    await app.cutOff();
    const answers = await Promise.all(['/events?q=a', '/nowhere'].map((path) => get(path, { accept: html }))).finally(
      () => app.restore(),
    );
    // The requester is unknown while the database is unavailable; the 404 is not.
    expect(answers.map(({ status }) => status)).toEqual([503, 404]);
    expect(answers[0]!.headers.get('retry-after')).toBe('1');
    const text = await answers[0]!.text();
    expect(text).toContain('The database cannot be reached');
    expect(text).toContain('<a href="/events?q=a">Try again</a>');
    await until(async () => (await get('/events')).status === 200);
  });

  test('of a form that is too large is a page', async () => {
    const answer = await post('/webhooks/new', { name: 'a'.repeat(2_000_000) });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([413, 'text/html; charset=utf-8']);
  });
});

describe('the table of pages', () => {
  /** Whom a page admits, unless viewers may GET and operators may POST: not derived, so that a role lowered by mistake fails here. */
  const exceptions: Readonly<Record<string, string>> = {
    anyone: 'signIn doSignIn oidcStart oidcCallback setUp doSetUp invitation acceptInvitation docs guide',
    viewer:
      'signOut changePassword setAppearance endSession signOutEverywhere createToken revokeToken decideAuthorization',
    operator: 'newWebhook editWebhook newTest replayForm editEvent newAgent editAgent editFilter status',
    administrator:
      'userList newUser createUser showUser updateUser resetPassword inviteUser revokeInvitation disableUser enableUser deleteUser auditList verifyAudit showAuditEntry moveWebhook',
  };

  test('admits whom each page is meant for', () => {
    const listed = (name: string) =>
      Object.keys(exceptions).find((access) => exceptions[access]!.split(' ').includes(name));
    const meant = pageRoutes.map(([method, path, name]) => [
      path,
      listed(name) ?? ((method as string) === 'GET' ? 'viewer' : 'operator'),
    ]);
    expect(pageRoutes.map(([, path, , access]) => [path, access])).toEqual(meant);
  });

  const rows = pageRoutes.flatMap(([method, path, , access]) =>
    roles.map((role) => ({
      method,
      path,
      role,
      permitted: access === 'anyone' || roles.indexOf(role) >= roles.indexOf(access),
    })),
  );
  test.each(rows.filter(({ permitted }) => !permitted))(
    '$method $path is refused to a $role',
    async ({ method, path, role }) => {
      const { cookie } = people[role]!;
      const csrf = await csrfToken(app.url, cookie);
      const response = await fetch(app.url + path.replace(':id', '00000000-0000-7000-8000-000000000000'), {
        method,
        headers: { cookie, origin: app.url },
        ...(method === 'POST' ? { body: new URLSearchParams({ csrf }) } : {}),
      });
      expect(response.status).toBe(403);
      expect(response.headers.get('content-type')).toContain('text/html');
      expect(await response.text()).toContain('needs the role');
    },
  );
});

describe('the response of a page', () => {
  test('is a complete page for a browser, and the main part for htmx', async () => {
    const whole = await (await get('/webhooks')).text();
    const part = await (await get('/webhooks', { 'hx-request': 'true' })).text();
    expect(whole).toMatch(/^<!doctype html>/);
    expect(part).not.toContain('<html');
    expect(part).toMatch(/^<title>Webhooks/);
    expect(part).toContain('hx-swap-oob');
    const restored = await get('/webhooks', { 'hx-request': 'true', 'hx-history-restore-request': 'true' });
    expect(await restored.text()).toBe(whole);
  });

  test('has the policy that forbids foreign content', async () => {
    const { headers } = await get('/');
    const policy = headers.get('content-security-policy')!;
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/unsafe|data:|\*/);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('referrer-policy')).toBe('same-origin');
    expect(headers.get('cache-control')).toBe('private, no-cache');
    expect(headers.get('vary')).toBe('accept-encoding, hx-request, cookie');
  });

  test('with a known ETag is not sent again', async () => {
    const first = await get('/webhooks');
    const again = await get('/webhooks', { 'if-none-match': first.headers.get('etag')! });
    expect([again.status, await again.text()]).toEqual([304, '']);
  });

  test.each([
    ['br, gzip', 'br', brotliDecompressSync],
    ['gzip', 'gzip', gunzipSync],
    ['gzip, br;q=0', 'gzip', gunzipSync],
  ])('is compressed for a client that accepts %s', async (accepted, coding, decompress) => {
    const client = await RawClient.connect(app.port);
    await client.send(
      `GET /webhooks HTTP/1.1\r\nhost: x\r\ncookie: ${people.administrator!.cookie}\r\naccept-encoding: ${accepted}\r\n\r\n`,
    );
    const answer = (await client.answer())!;
    client.destroy();
    expect(answer.headers['content-encoding']).toBe(coding);
    expect(decompress(answer.body).toString()).toMatch(/^<!doctype html>/);
  });
});

test('an asset is cached without expiry, under a name that changes with its content', async () => {
  const [, path] = /href="(\/assets\/[^"]+\.css)"/.exec(await (await get('/')).text())!;
  const { status, headers } = await get(path!);
  expect([status, headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable']);
  expect((await get('/assets/weir.css')).status).toBe(404);
});

describe('a form of a page', () => {
  test.each([
    ['without its token', { csrf: '' }, {}],
    ['with the token of another session', { csrf: 'A'.repeat(43) }, {}],
    ['from another site', {}, { origin: 'https://evil.example' }],
    ['from an opaque origin', {}, { origin: 'null' }],
  ])('%s changes nothing', async (_, fields, headers) => {
    const before = (await people.administrator!.api('GET', '/api/v1/webhooks')).body.items.length;
    const response = await post('/webhooks/new', { name: 'forged', secret_choice: 'none', ...fields }, headers);
    expect(response.status).toBe(403);
    expect((await people.administrator!.api('GET', '/api/v1/webhooks')).body.items.length).toBe(before);
  });

  test('with invalid content shows an error on the page', async () => {
    const refused = await post('/webhooks/new', { name: '' }, { 'hx-request': 'true' });
    expect([refused.status, refused.headers.get('hx-push-url')]).toEqual([422, 'false']);
  });

  test('redirects to the URL of what it created', async () => {
    const made = await post('/webhooks/new', { name: 'made', secret_choice: 'generate' }, { 'hx-request': 'true' });
    const address = made.headers.get('hx-push-url')!;
    expect(address).toMatch(/^\/webhooks\/[0-9a-f-]{36}$/);
    const opened = await (await get(address)).text();
    expect(opened).toContain('<h1>made');
    expect(opened).not.toContain('class="once"');
  });
});

const lists = ['/events', '/webhooks', '/agents', '/events/replays', '/issues', '/deliveries', '/rejections'];

test.each([...lists, '/audit'])('%s reports an invalid cursor', async (path) => {
  const text = await (await get(`${path}?cursor=none`)).text();
  expect(text).toMatch(/class="alert" role="alert">The URL contains an invalid cursor/);
  expect(text).not.toContain('class="empty"');
});

test.each(['/issues?state', '/issues?kind', '/webhooks/latency?days', '/account/tokens?user_id'])(
  '%s=none is reported, and the page does not say that there is nothing',
  async (path) => {
    const text = await (await get(`${path}=none`)).text();
    const [, name] = path.split('?');
    expect(text).toContain(`class="alert" role="alert">The parameter <code>${name}</code> of the URL is not valid. `);
    expect(text).not.toContain('class="empty"');
  },
);

test('/account/tokens reports a cursor whose token was deleted', async () => {
  const text = await (await get(`/account/tokens?cursor=${randomUUID()}`)).text();
  expect(text).toMatch(/class="alert" role="alert">The item that this cursor names was deleted/);
  expect(text).not.toContain('class="empty"');
});
