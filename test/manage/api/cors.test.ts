/** What pages of other origins may ask of the API, and read of its answers, as browsers decide by the Fetch standard. */
import { describe, expect, test } from 'vitest';
import { operationRoutes, plainRoutes } from '../../../server/manage/api/routes.ts';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson, request } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const page = 'https://console.example.org';
const secondPage = 'http://localhost:5173';
const app = shared(() => startTestApp({ CORS_ORIGINS: `${page},${secondPage}`, RATE_LIMIT_AGENT_AUTH_MAX: 1_000 }));
const closed = shared(startTestApp);
const viewer = shared(() => addPerson(app, 'viewer'));

const unknownId = '00000000-0000-7000-8000-000000000000';
const routes = [...plainRoutes, ...operationRoutes]
  .filter(([, path]) => path.startsWith('/api/'))
  .map(([method, path]) => ({ method: method as string, path: path.replace(/:\w+/, unknownId) }));

const ask = (method: string, path: string, headers: Record<string, string>, place = app) =>
  request(place.url + path, method, undefined, headers);
const preflight = (path: string, headers: Record<string, string>, place = app) => ask('OPTIONS', path, headers, place);

/** Whether a browser lets a page of this origin read the answer, to a request with credentials (Fetch, CORS check). */
const readable = (headers: Headers, origin: string) =>
  headers.get('access-control-allow-origin') === origin && headers.get('access-control-allow-credentials') === 'true';

const words = (headers: Headers, name: string) => (headers.get(name) ?? '').split(/, */);
const corsFields = (headers: Headers) => [...headers.keys()].filter((name) => name.startsWith('access-control-'));

test('a page of an allowed origin passes the preflight with credentials and every method and header that the API reads', async () => {
  const { status, headers, text } = await preflight('/api/v1/account', {
    origin: page,
    'access-control-request-method': 'PATCH',
    'access-control-request-headers': 'authorization,content-type,x-csrf-token',
  });
  expect([status, text]).toEqual([204, '']);
  expect(readable(headers, page)).toBe(true);
  const allowed = words(headers, 'access-control-allow-headers');
  for (const name of ['authorization', 'content-type', 'x-csrf-token', 'if-match', 'idempotency-key', 'last-event-id'])
    expect(allowed).toContain(name);
  const methods = new Set<string>(routes.map(({ method }) => method));
  expect([...methods].filter((method) => !words(headers, 'access-control-allow-methods').includes(method))).toEqual([]);
  expect(headers.get('access-control-max-age')).toBe('7200');
});

test.each(routes)('$method $path may be asked by the page, and its answer read', async ({ method, path }) => {
  const asked = { origin: page, 'access-control-request-method': method };
  const [before, answer] = [await preflight(path, asked), await ask(method, path, { origin: page })];
  expect([before.status, readable(before.headers, page)]).toEqual([204, true]);
  expect(readable(answer.headers, page)).toBe(true);
});

test('the page can read the headers of the response', async () => {
  const { headers } = await ask('GET', '/api/v1/account', { origin: page });
  for (const name of ['x-request-id', 'retry-after', 'etag', 'location', 'ratelimit', 'www-authenticate'])
    expect(words(headers, 'access-control-expose-headers')).toContain(name);
  expect(words(headers, 'vary')).toContain('origin');
});

describe('a response can be read by the page:', () => {
  const bearer = () => ({ authorization: `Bearer ${viewer.token}` });

  test.each<[number, string, string, () => Record<string, string>, unknown?]>([
    [200, 'GET', '/api/v1/account', bearer],
    [401, 'GET', '/api/v1/account', () => ({})],
    [401, 'GET', '/api/v1/agent/me', () => ({})],
    [403, 'GET', '/api/v1/audit', bearer],
    [403, 'POST', '/api/v1/tokens', () => ({ cookie: viewer.cookie })],
    [404, 'GET', '/api/v1/nowhere', bearer],
    [404, 'PUT', '/api/v2', bearer],
    [404, 'GET', '/api/', bearer],
    [404, 'GET', `/api/v1/events/${unknownId}`, bearer],
    [405, 'PUT', '/api/v1/account', bearer],
    [405, 'POST', '/api/v1/events', bearer],
    [413, 'POST', '/api/v1/tokens', bearer, 'x'.repeat(1_100_000)],
    [422, 'POST', '/api/v1/tokens', bearer, {}],
    [400, 'POST', '/api/v1/tokens', bearer, '{'],
    [431, 'GET', '/api/v1/account', () => ({ ...bearer(), 'x-long': 'x'.repeat(16_384) })],
  ])('%i of %s %s', async (expected, method, path, headers, body) => {
    const asked = {
      origin: page,
      'access-control-request-method': method,
      'access-control-request-headers': 'authorization',
    };
    const before = await preflight(path, asked);
    expect([before.status, readable(before.headers, page)]).toEqual([204, true]);
    const answer = await request(app.url + path, method, body, { ...headers(), origin: page });
    expect(answer.status).toBe(expected);
    expect(readable(answer.headers, page)).toBe(true);
    if (expected === 405) expect(words(answer.headers, 'allow')).toContain('OPTIONS');
    if (expected >= 400) expect(answer.body.code).toMatch(/^[a-z_]+$/);
  });

  test('304', async () => {
    const first = await ask('GET', '/api/v1/account', { ...bearer(), origin: page });
    const again = await ask('GET', '/api/v1/account', {
      ...bearer(),
      origin: page,
      'if-none-match': first.headers.get('etag')!,
    });
    expect([again.status, readable(again.headers, page)]).toEqual([304, true]);
  });

  test('429, with Retry-After', async () => {
    const strict = await startTestApp({ CORS_ORIGINS: page, RATE_LIMIT_AGENT_AUTH_MAX: 1 });
    await ask('GET', '/api/v1/agent/me', { origin: page }, strict);
    const { status, headers } = await ask('GET', '/api/v1/agent/me', { origin: page }, strict);
    await strict.stop();
    expect([status, readable(headers, page)]).toEqual([429, true]);
    expect(headers.get('retry-after')).toMatch(/^\d+$/);
  });

  test('503, while the database is unavailable', async () => {
    const strict = await startTestApp({ CORS_ORIGINS: page });
    await strict.cutOff();
    const { status, headers } = await ask('GET', '/api/v1/account', { ...bearer(), origin: page }, strict);
    await strict.restore();
    await strict.stop();
    expect([status, readable(headers, page)]).toEqual([503, true]);
  });

  test('HEAD, like GET', async () => {
    const { status, headers } = await ask('HEAD', '/api/v1/account', { ...bearer(), origin: secondPage });
    expect([status, readable(headers, secondPage)]).toEqual([200, true]);
  });
});

describe('a page of another origin gets no CORS header:', () => {
  test.each([
    ['another site', 'https://elsewhere.example'],
    ['the null origin of sandboxed frames and files', 'null'],
    ['an empty origin', ''],
    ['a star', '*'],
    ['a subdomain', 'https://a.console.example.org'],
    ['the parent domain', 'https://example.org'],
    ['ours as a prefix', 'https://console.example.org.evil.example'],
    ['ours as a suffix', 'https://evilconsole.example.org'],
    ['ours as user information', 'https://console.example.org@evil.example'],
    ['another port', 'https://console.example.org:8443'],
    ['the default port written out', 'https://console.example.org:443'],
    ['another scheme', 'http://console.example.org'],
    ['capital letters', 'https://CONSOLE.example.org'],
    ['a slash at the end', 'https://console.example.org/'],
    ['a dot at the end', 'https://console.example.org.'],
    ['two of ours', `${page} ${secondPage}`],
    ['two of ours with a comma', `${page},${secondPage}`],
    ['another of localhost', 'http://localhost:5174'],
    ['localhost by number', 'http://127.0.0.1:5173'],
    ['no scheme', 'console.example.org'],
  ])('%s', async (_what, origin) => {
    for (const path of ['/api/v1/account', '/api/v1/agent/session', '/api/v1/nowhere']) {
      const before = await preflight(path, { origin, 'access-control-request-method': 'POST' });
      const answer = await ask('GET', path, { origin, authorization: `Bearer ${viewer.token}` });
      for (const { headers } of [before, answer]) {
        expect(corsFields(headers)).toEqual([]);
        // Without it, a cache could give this answer to a page of CORS_ORIGINS.
        expect(words(headers, 'vary')).toContain('origin');
      }
    }
  });

  test('every origin, while CORS_ORIGINS is empty; then no response varies', async () => {
    for (const origin of [page, closed.url, 'null']) {
      const before = await preflight('/api/v1/account', { origin, 'access-control-request-method': 'GET' }, closed);
      const answer = await ask('GET', '/api/v1/account', { origin }, closed);
      for (const { headers } of [before, answer]) {
        expect(corsFields(headers)).toEqual([]);
        expect(headers.get('vary')).toBeNull();
      }
    }
  });

  test('an allowed origin on a path outside the API', async () => {
    const webhook = await app.addWebhook();
    for (const [method, path] of [
      ['GET', '/healthz'],
      ['GET', '/readyz'],
      ['POST', webhook.path],
      ['OPTIONS', webhook.path],
      ['GET', '/nowhere'],
      ['GET', '/sign-in'],
      ['GET', '/apiary'],
    ] as const)
      expect(corsFields((await ask(method, path, { origin: page })).headers)).toEqual([]);
  });
});

test('each allowed origin is returned as is, and responses without an origin vary', async () => {
  for (const origin of [page, secondPage])
    expect((await ask('GET', '/api/v1/account', { origin })).headers.get('access-control-allow-origin')).toBe(origin);
  const { headers } = await ask('GET', '/api/v1/account', {});
  expect(corsFields(headers)).toEqual([]);
  expect(words(headers, 'vary')).toContain('origin');
});

describe('every response of the API', () => {
  test.each([
    ['GET', '/api/v1/account', 200, 'private, no-cache'],
    ['POST', '/api/v1/tokens', 201, 'no-store'],
    ['GET', '/api/v1/nowhere', 404, 'no-store'],
    ['DELETE', '/api/v1/events', 405, 'no-store'],
    ['GET', '/api/v1/audit', 403, 'no-store'],
  ])('%s %s (%i) cannot be sniffed, framed, embedded or cached by others', async (method, path, status, cache) => {
    const answer = await viewer.api(method, path, method === 'POST' ? { name: 'a' } : undefined);
    expect(answer.status).toBe(status);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'cache-control': cache,
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'cross-origin-resource-policy': 'same-origin',
    });
    expect(answer.headers.get('server')).toBeNull();
  });

  test('the response to a webhook has none of these headers and stays short', async () => {
    const webhook = await app.addWebhook({ secret: null });
    const answer = await request(webhook.url, 'POST', '{}', { origin: page });
    expect(answer.status).toBe(202);
    expect(corsFields(answer.headers)).toEqual([]);
    for (const name of ['content-security-policy', 'cross-origin-resource-policy', 'vary'])
      expect(answer.headers.has(name)).toBe(false);
  });
});
