/** Requests without valid credentials: their rate limit, and the documents for anyone. */
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createCredential } from '../../../server/model/credential.ts';
import { startTestApp, type TestApp } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { startRedis } from '../../helpers/redis.ts';
import { RawClient } from '../../helpers/requests.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const MAX = 5;
const documents = ['/api/v1/openapi.json', '/api/v1/signature-schemes'];
const ALLOWED_ORIGIN = 'https://pages.example';

const app = shared(() =>
  startTestApp({
    RATE_LIMIT_ANONYMOUS_MAX: MAX,
    RATE_LIMIT_ANONYMOUS_WINDOW_SECONDS: 3_600,
    TRUSTED_PROXIES: '127.0.0.1',
    CORS_ORIGINS: ALLOWED_ORIGIN,
  }),
);
const viewer = shared(() => addPerson(app, 'viewer'));

let clients = 0;
/** A client of its own. */
const newClient = () => `192.0.2.${++clients}`;
const page = { accept: 'text/html' };

const ask = (client: string, path: string, headers: Record<string, string> = {}, method = 'GET', { url } = app) =>
  fetch(url + path, { method, headers: { 'x-forwarded-for': client, ...headers }, redirect: 'manual' });

/** Uses up the limit of a client. */
async function useUp(client: string): Promise<void> {
  for (let i = 0; i < MAX; i++) expect((await ask(client, documents[1]!, {}, 'HEAD')).status).toBe(200);
}

const token = () => createCredential('wu').text;
const unknownCookie = () => `${viewer.cookie.split('=')[0]}=${randomBytes(32).toString('base64url')}`;

describe('the rate limit of requests without valid credentials', () => {
  const counted: [string, string, Record<string, string>, string?][] = [
    ['a document', documents[0]!, {}],
    ['the head of a document', documents[0]!, {}, 'HEAD'],
    ['the sign-in page', '/sign-in', page],
    ['the set-up page', '/setup', page],
    ['/oidc/callback of local mode', '/oidc/callback', page],
    ['a page of users', '/webhooks', page],
    ['an unknown page', '/docs', page],
    ['an unknown path of the API', '/api/v1/nothing', {}],
    ['a wrong method', '/healthz', {}, 'PUT'],
    ['an operation for users', '/api/v1/account', {}],
    ['a preflight of an unknown origin', '/api/v1/events', { origin: 'https://other.example' }, 'OPTIONS'],
  ];

  test.each(counted)('counts %s', async (_, path, headers, method) => {
    const client = newClient();
    const first = await ask(client, path, headers, method);
    expect(first.status).not.toBe(429);
    expect(first.status).toBeLessThan(500);
    expect(first.headers.get('ratelimit-policy')).toBe(`"anonymous";q=${MAX};w=3600`);
    expect(first.headers.get('ratelimit')).toMatch(new RegExp(`^"anonymous";r=${MAX - 1};t=\\d+$`));
    for (let i = 1; i < MAX; i++) await ask(client, path, headers, method);
    const refused = await ask(client, path, headers, method);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('counts a request whose cookie or token is unknown', async () => {
    const client = newClient();
    for (let i = 0; i < MAX; i++) {
      const headers = i % 2 === 0 ? { cookie: unknownCookie() } : { authorization: `Bearer ${token()}` };
      expect((await ask(client, '/api/v1/account', headers)).status).toBe(401);
    }
    expect((await ask(client, '/api/v1/account', { cookie: unknownCookie() })).status).toBe(429);
    expect((await ask(client, documents[0]!, { authorization: `Bearer ${token()}` })).status).toBe(429);
  });

  test('serves signed-in users and tokens of a client over the limit, and does not count them', async () => {
    const client = newClient();
    await useUp(client);
    expect((await ask(client, '/sign-in', page)).status).toBe(429);
    for (const headers of [{ cookie: viewer.cookie }, { authorization: `Bearer ${viewer.token}` }])
      for (const path of ['/api/v1/account', ...documents, '/webhooks']) {
        const served = await ask(client, path, headers);
        expect([path, served.status]).toEqual([path, 200]);
        expect(served.headers.get('ratelimit')).toBe(null);
      }
    expect((await ask(client, '/nothing', { ...page, cookie: viewer.cookie })).status).toBe(404);
  });

  test('does not count health checks, assets, preflights of CORS_ORIGINS, and unknown paths of senders', async () => {
    const client = newClient();
    await useUp(client);
    const free: [string, number, string?, Record<string, string>?][] = [
      ['/healthz', 200],
      ['/readyz', 200],
      ['/assets/nothing', 404],
      ['/in/a/b/c', 404],
      ['/api/v1/events', 204, 'OPTIONS', { origin: ALLOWED_ORIGIN }],
    ];
    for (const [path, status, method, headers] of free)
      expect([path, (await ask(client, path, headers, method)).status]).toEqual([path, status]);
  });

  test('is a page where a page was asked for, the same one each time', async () => {
    const client = newClient();
    await useUp(client);
    const pages = await Promise.all(
      ['/sign-in', '/docs', '/unknown', '/webhooks'].map(async (path) => {
        const refused = await ask(client, path, { ...page, cookie: 'weir_appearance=dark.compact' });
        expect(refused.headers.get('content-type')).toBe('text/html; charset=utf-8');
        expect(refused.headers.get('content-security-policy')).toContain("default-src 'none'");
        expect(refused.headers.get('cache-control')).toBe('no-store');
        return refused.text();
      }),
    );
    expect(new Set(pages).size).toBe(1);
    expect(pages[0]).toContain('<code>rate_limited</code>');
    const fragment = await (await ask(client, '/sign-in', { ...page, 'hx-request': 'true' })).text();
    expect(fragment).toContain('<code>rate_limited</code>');
    expect(fragment).not.toContain('<!doctype');
    expect(await (await ask(client, '/unknown')).json()).toMatchObject({ code: 'rate_limited' });
  });
});

describe('two processes with RATE_LIMIT_BACKEND=shared', () => {
  const redis = shared(startRedis);
  const apps: TestApp[] = [];
  beforeAll(async () => {
    const settings = {
      RATE_LIMIT_BACKEND: 'shared',
      RATE_LIMIT_SHARED_URL: redis.url,
      RATE_LIMIT_ANONYMOUS_MAX: MAX,
      // A day, so that the window never moves during a test.
      RATE_LIMIT_ANONYMOUS_WINDOW_SECONDS: 86_400,
      TRUSTED_PROXIES: '127.0.0.1',
    };
    for (let i = 0; i < 2; i++) apps.push(await startTestApp(settings, app));
  });
  afterAll(async () => {
    for (const { stop } of apps) await stop();
  });

  /** Sends MAX + 2 requests of a client, to each process in turn. Returns the status and the remaining requests of each response. */
  async function alternate(client: string): Promise<[status: number, remaining: number][]> {
    const answers: [number, number][] = [];
    for (let i = 0; i < MAX + 2; i++) {
      const { status, headers } = await ask(client, documents[1]!, {}, 'HEAD', apps[i % 2]);
      answers.push([status, Number(/r=(\d+)/.exec(headers.get('ratelimit')!)![1])]);
    }
    return answers;
  }

  test('count a client together, and allow it uncounted while Redis is down', async () => {
    // Only an uncounted request leaves the whole limit. On a busy machine Redis may be late: try another client then.
    const { client, answers } = await until(async () => {
      const client = newClient();
      const answers = await alternate(client);
      return answers.every(([, remaining]) => remaining < MAX) && { client, answers };
    });
    expect(answers).toEqual([...[4, 3, 2, 1, 0].map((remaining) => [200, remaining]), [429, 0], [429, 0]]);

    await redis.stop();
    // The refusals of the first client are cached until a request of another client finds that Redis is down.
    for (const from of [newClient(), client]) expect(await alternate(from)).toEqual(Array(MAX + 2).fill([200, MAX]));
  });
});

describe.each(documents)('%s', (path) => {
  test('is compressed to at most 128 kB, and the same text in every coding', async () => {
    const plain = Buffer.from(await (await ask(newClient(), path)).arrayBuffer());
    const client = await ofTest(RawClient.connect(app.port));
    const from = newClient();
    for (const [coding, decode] of [
      ['gzip', gunzipSync],
      ['br', brotliDecompressSync],
    ] as const) {
      void client.send(
        `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${from}\r\nAccept-Encoding: ${coding}\r\n\r\n`,
      );
      const { status, headers, body } = (await client.answer())!;
      expect([status, headers['content-encoding'], headers['content-type']]).toEqual([200, coding, 'application/json']);
      expect(body.length).toBeLessThan(131_072);
      expect(decode(body).equals(plain)).toBe(true);
    }
  });

  test('is made and compressed once: later requests take little of its processor time', async () => {
    const other = await ofTest(startTestApp());
    const client = await ofTest(RawClient.connect(other.port));
    const cpuMsOf = async (count: number) => {
      const before = process.cpuUsage();
      for (let i = 0; i < count; i++) {
        await client.send(`GET ${path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br\r\n\r\n`);
        expect((await client.answer())!.status).toBe(200);
      }
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000;
    };
    const firstMs = await cpuMsOf(1);
    const laterMs = await cpuMsOf(20);
    expect(laterMs).toBeLessThan(3 * firstMs);
  });

  test('answers 304 to its ETag, alone, in a list, or as a star', async () => {
    const tag = (await ask(newClient(), path, {}, 'HEAD')).headers.get('etag')!;
    const known = newClient();
    for (const field of [tag, `"other", ${tag}`, '*', tag.replace('W/', ''), `W/"x",${tag}`]) {
      const response = await ask(known, path, { 'if-none-match': field });
      expect([field, response.status, await response.text()]).toEqual([field, 304, '']);
      expect(response.headers.get('etag')).toBe(tag);
    }
    expect((await ask(newClient(), path, { 'if-none-match': '"other"' })).status).toBe(200);
  });
});

describe('a client without credentials that does not read', () => {
  const path = documents[0]!;
  const sockets: Socket[] = [];

  test('is refused large responses until it reads or leaves, and one that reads is served', async () => {
    const unread = await ofTest(startTestApp({ CLIENT_UNREAD_BYTES_MAX: 1_048_576 }));
    const [asset] = /\/assets\/[\w-]+-htmx\.js/.exec(await (await fetch(`${unread.url}/sign-in`)).text())!;
    const open = () => {
      const socket = connect(unread.port, '127.0.0.1').on('error', () => {});
      sockets.push(socket);
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    };
    for (let i = 0; i < 20; i++)
      expect((await (await fetch(unread.url + path)).text()).length).toBeGreaterThan(100_000);
    for (let i = 0; i < 40; i++) open();
    const refusal = async () => {
      const response = await fetch(unread.url + path);
      const { code } = (await response.json()) as { code: string };
      return response.status === 503 && response.headers.get('retry-after') !== null && code;
    };
    expect(await until(refusal)).toBe('client_busy');
    const plain = { headers: { 'accept-encoding': 'identity' } };
    expect((await fetch(unread.url + asset, plain)).status).toBe(503);
    expect((await fetch(`${unread.url}/healthz`)).status).toBe(200);
    for (const socket of sockets.splice(0)) socket.destroy();
    await until(async () => (await fetch(unread.url + path)).status === 200);
  });
});
