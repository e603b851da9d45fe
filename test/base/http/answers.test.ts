import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { problems } from '../../../server/model/errors.ts';
import { startTestApp } from '../../helpers/app.ts';
import { RawClient, rawRequest } from '../../helpers/requests.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const app = shared(startTestApp);

describe('the response to HEAD', () => {
  test.each(['/healthz', '/readyz'])('of %s is GET without the body', async (path) => {
    const get = await rawRequest(app.port, `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    const head = await rawRequest(app.port, `HEAD ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    expect(head!.status).toBe(200);
    expect(head!.headers['content-length']).toBe(get!.headers['content-length']);
    expect(Object.keys(head!.headers).sort()).toEqual(Object.keys(get!.headers).sort());
  });

  test('of an unknown path, webhook or method is the error without the body', async () => {
    for (const [path, status] of [
      ['/nowhere', 404],
      ['/in/x', 404],
      ['/in/x/batch', 405],
    ] as const)
      expect((await rawRequest(app.port, `HEAD ${path} HTTP/1.1\r\nHost: x\r\n\r\n`))!.status).toBe(status);
  });

  test('keeps the connection usable for the next request', async () => {
    const client = await ofTest(RawClient.connect(app.port));
    await client.send('HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    expect((await client.answer({ toHead: true }))!.status).toBe(200);
    await client.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    expect((await client.answer())!.body.toString()).toBe('{"status":"ok"}');
  });
});

test.each([
  ['204', 'OPTIONS /api/v1/webhooks', () => ''],
  ['304', 'GET /api/v1/openapi.json', (etag: string) => `If-None-Match: ${etag}\r\n`],
])('a response %s has no length and keeps the connection usable', async (status, line, fields) => {
  const { headers } = await fetch(`${app.url}/api/v1/openapi.json`);
  const client = await ofTest(RawClient.connect(app.port));
  await client.send(`${line} HTTP/1.1\r\nHost: x\r\n${fields(headers.get('etag')!)}\r\n`);
  const answer = await client.answer();
  expect([answer!.status, answer!.headers['content-length']]).toEqual([Number(status), undefined]);
  await client.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  expect((await client.answer())!.body.toString()).toBe('{"status":"ok"}');
});

test('a body just over the cap is answered before it arrives, and its connection stays usable', async () => {
  const client = await ofTest(RawClient.connect(app.port));
  const { path } = await app.addWebhook();
  await client.send(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n`);
  expect((await client.answer())!.status).toBe(413);
  await client.send(Buffer.alloc(1_048_577, 'x'));
  await client.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  expect((await client.answer())!.body.toString()).toBe('{"status":"ok"}');
});

test.each([
  ['POST', '/healthz', 'GET, HEAD'],
  ['DELETE', '/readyz', 'GET, HEAD'],
  ['GET', '/in/2f1c0d7e-0000-4000-8000-000000000000', 'POST, HEAD'],
  ['PUT', '/in/nonsense', 'POST, HEAD'],
  ['OPTIONS', '/in/nonsense', 'POST, HEAD'],
  ['GET', '/in/nonsense/batch', 'POST'],
])('another method of a known path: %s %s is answered 405 with Allow', async (method, path, allow) => {
  const response = await fetch(app.url + path, { method });
  expect(response.status).toBe(405);
  expect(response.headers.get('allow')).toBe(allow);
  expect(await response.json()).toMatchObject({ code: 'method_not_allowed', status: 405 });
});

describe('the response to an error', () => {
  test('is a problem document as in RFC 9457', async () => {
    const response = await fetch(`${app.url}/nowhere`, { headers: { 'x-request-id': 'mine' } });
    expect(response.status).toBe(404);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(await response.json()).toEqual({
      type: 'about:blank',
      title: 'Not Found',
      status: 404,
      detail: problems.not_found.detail,
      code: 'not_found',
      request_id: 'mine',
    });
  });

  test.each(['/in', '/in/', '/in/a/b/c', '/HEALTHZ', '/healthz/', '//healthz', '/healthz%00', '/%2e%2e/etc/passwd'])(
    'is the response to %s, where nothing exists',
    async (path) => {
      const answer = await rawRequest(app.port, `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
      expect([answer!.status, JSON.parse(answer!.body.toString()).code]).toEqual([404, 'not_found']);
    },
  );
});

describe('the request id', () => {
  test.each(['a', 'A-Z_a.z-09', 'x'.repeat(64)])('%s is kept', async (id) => {
    const response = await fetch(`${app.url}/healthz`, { headers: { 'x-request-id': id } });
    expect(response.headers.get('x-request-id')).toBe(id);
  });

  test.each([
    ['empty', ''],
    ['too long', 'x'.repeat(65)],
    ['with a blank', 'a b'],
    ['with markup', '<script>'],
    ['beyond ASCII', '\xe9'],
  ])('is generated when it is %s', async (_how, id) => {
    const response = await fetch(`${app.url}/healthz`, { headers: { 'x-request-id': id } });
    expect(response.headers.get('x-request-id')).toMatch(/^[a-z0-9]+-[a-z0-9]+-[a-z0-9]+$/);
  });

  test('differs for every request and is in the log', async () => {
    const ids = new Set<string>();
    for (let i = 0; i < 20; i++) ids.add((await fetch(`${app.url}/healthz`)).headers.get('x-request-id')!);
    expect(ids.size).toBe(20);
    for (const id of ids) expect(app.logLines.filter((line) => line.includes(`"request_id":"${id}"`))).toHaveLength(1);
  });
});

describe('request headers', () => {
  const padded = (bytes: number) => `GET /healthz HTTP/1.1\r\nHost: x\r\nX-Pad: ${'p'.repeat(bytes)}\r\n\r\n`;
  // Included in the count: `host: x` and the name x-pad, with four bytes each for colon, space and line end.
  const others = 'hostx'.length + 4 + 'x-pad'.length + 4;

  test('at the limit are accepted', async () => {
    expect((await rawRequest(app.port, padded(16_384 - others)))!.status).toBe(200);
  });

  test('at the limit are accepted when TCP cuts them', async () => {
    const client = await ofTest(RawClient.connect(app.port));
    const request = padded(16_384 - others);
    await client.send(request.slice(0, 9_000));
    await delay(100);
    await client.send(request.slice(9_000));
    expect((await client.answer())!.status).toBe(200);
  });

  test('one byte over the limit are answered 431, and the next request on the connection is served', async () => {
    const client = await ofTest(RawClient.connect(app.port));
    await client.send(padded(16_384 - others + 1));
    const answer = await client.answer();
    expect([answer!.status, JSON.parse(answer!.body.toString()).code]).toEqual([431, 'headers_too_large']);
    await client.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    expect((await client.answer())!.status).toBe(200);
  });

  test('over the limit with a body are refused without confusion', async () => {
    const client = await ofTest(RawClient.connect(app.port));
    await client.send(
      `POST /in/x HTTP/1.1\r\nHost: x\r\nX-Pad: ${'p'.repeat(20_000)}\r\nContent-Length: 5\r\n\r\nhello`,
    );
    expect((await client.answer())!.status).toBe(431);
    await client.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    expect((await client.answer())!.status).toBe(200);
  });

  test('without end are refused by the parser', async () => {
    const client = await RawClient.connect(app.port);
    void client.send(`GET /healthz HTTP/1.1\r\nHost: x\r\nX-Pad: ${'p'.repeat(2_000_000)}`);
    expect([431, undefined]).toContain((await client.answer())?.status);
    await client.ended();
  });
});

test('responses have headers against caching and sniffing', async () => {
  for (const path of ['/healthz', '/nowhere']) {
    const { headers } = await fetch(app.url + path);
    expect([headers.get('cache-control'), headers.get('x-content-type-options')]).toEqual(['no-store', 'nosniff']);
  }
});
