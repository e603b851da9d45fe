import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Overrides, startTestApp, type TestApp } from '../../helpers/app.ts';
import { RawClient, signedRequest } from '../../helpers/requests.ts';
import { ofTest } from '../../helpers/shared.ts';

const UNKNOWN = '2f1c0d7e-0000-4000-8000-000000000000';
let app: TestApp;
const start = async (overrides: Overrides) => {
  app = await startTestApp({ WEBHOOK_MAX_PAYLOAD_BYTES: 1_000, ...overrides });
};
const tooLarge = { method: 'POST', body: 'x'.repeat(1_001) };

async function codeOf(path: string, request: RequestInit): Promise<[number, string]> {
  const response = await fetch(app.url + path, request);
  return [response.status, ((await response.json()) as { code: string }).code];
}

describe('with two reasons to refuse', () => {
  afterEach(() => app.stop());

  test('the rate limit comes first, with Retry-After', async () => {
    await start({ RATE_LIMIT_INGEST_MAX: 1, RATE_LIMIT_INGEST_WINDOW_SECONDS: 3_600 });
    const webhook = await app.addWebhook();
    expect(await codeOf(`/in/${UNKNOWN}`, tooLarge)).toEqual([404, 'webhook_unknown']);
    for (const path of [`/in/${UNKNOWN}`, '/in/nonsense', webhook.path]) {
      const response = await fetch(app.url + path, tooLarge);
      expect(response.status).toBe(429);
      expect(((await response.json()) as { code: string }).code).toBe('rate_limited');
      const retryAfter = Number(response.headers.get('retry-after'));
      expect(retryAfter).toBeGreaterThan(0);
      expect(retryAfter).toBeLessThanOrEqual(7_200);
      expect(response.headers.get('ratelimit')).toBe(`"ingest";r=0;t=${retryAfter}`);
    }
    await app.webhooks.update(webhook.id, { enabled: false });
    expect(await codeOf(webhook.path, tooLarge)).toEqual([429, 'rate_limited']);
    expect((await fetch(`${app.url}/in`, tooLarge)).status).toBe(404);
  });

  test('unknown webhook comes before disabled, disabled before the size limit, the size limit before the signature', async () => {
    await start({});
    const webhook = await app.addWebhook();
    expect(await codeOf(`/in/${UNKNOWN}`, tooLarge)).toEqual([404, 'webhook_unknown']);
    expect(await codeOf('/in/nonsense', tooLarge)).toEqual([404, 'webhook_unknown']);
    expect(await codeOf(webhook.path, tooLarge)).toEqual([413, 'payload_too_large']);
    expect(await codeOf(webhook.path, { method: 'POST', body: 'x' })).toEqual([403, 'signature_missing']);
    await app.webhooks.update(webhook.id, { enabled: false });
    expect(await codeOf(webhook.path, tooLarge)).toEqual([410, 'webhook_disabled']);
    await app.webhooks.remove(webhook.id);
    expect(await codeOf(webhook.path, tooLarge)).toEqual([404, 'webhook_unknown']);
  });

  test('a wrong signature comes before an unavailable database', async () => {
    await start({});
    const webhook = await app.addWebhook();
    await app.cutOff();
    // The directory is trusted for a second.
    expect(await codeOf(webhook.path, { method: 'POST', body: 'x' })).toEqual([403, 'signature_missing']);
    const response = await fetch(webhook.url, signedRequest({ secret: webhook.secret }));
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
    await app.restore();
  });
});

describe('a body over the limit', () => {
  beforeAll(() => start({}));
  afterAll(() => app.stop());

  test.each([
    ['WEBHOOK_MAX_PAYLOAD_BYTES', null, 1_000],
    ['WEBHOOK_MAX_PAYLOAD_BYTES', 1_000_000, 1_000],
    ['max_payload_bytes of the webhook (at most WEBHOOK_MAX_PAYLOAD_BYTES)', 999, 999],
  ])('is answered 413 with the limit, and the fix: raise %s', async (setting, max_payload_bytes, limitBytes) => {
    const webhook = await app.addWebhook({ secret: null, max_payload_bytes });
    const post = (bytes: number) => fetch(webhook.url, { method: 'POST', body: 'x'.repeat(bytes) });
    expect((await post(limitBytes)).status).toBe(202);
    const response = await post(limitBytes + 1);
    expect(response.status).toBe(413);
    expect(((await response.json()) as { detail: string }).detail).toBe(
      `The payload exceeds the limit of ${limitBytes} bytes: raise ${setting} or send a URL reference instead of inline content.`,
    );
  });

  test('is refused by its declared length, before any byte is sent', async () => {
    const webhook = await app.addWebhook({ secret: null });
    const client = await RawClient.connect(app.port);
    await client.send(`POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n`);
    const answer = await client.answer();
    expect([answer!.status, answer!.headers.connection]).toEqual([413, 'close']);
    await client.ended();
    expect((await fetch(webhook.url, { method: 'POST', body: 'x' })).status).toBe(202);
  });

  test('is refused on Expect: 100-continue, and one at the limit is requested', async () => {
    const webhook = await app.addWebhook({ secret: null });
    for (const [bytes, status] of [
      [50_000_000, 413],
      [1_000, 202],
    ] as const) {
      const client = await RawClient.connect(app.port);
      const head = `POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue`;
      await client.send(`${head}\r\nContent-Length: ${bytes}\r\n\r\n`);
      if (status === 202) await client.send('x'.repeat(bytes));
      expect((await client.answer())!.status).toBe(status);
      client.destroy();
    }
  });

  test('keeps the connection for the next request when its rest is short', async () => {
    const webhook = await app.addWebhook({ secret: null });
    const client = await ofTest(RawClient.connect(app.port));
    const request = (body: string) =>
      `POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    await client.send(request('x'.repeat(20_000)));
    expect((await client.answer())!.status).toBe(413);
    await client.send(request('small'));
    expect((await client.answer())!.status).toBe(202);
  });
});
