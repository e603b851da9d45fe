/** Handshakes of senders, and that a stranger cannot have a text of their choice signed or returned. */
import { createHmac, generateKeyPairSync } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { presetNamed } from '../../../server/model/signatures/presets.ts';
import { signRequest } from '../../../server/model/signatures/sign.ts';
import type { NewWebhook } from '../../../server/model/webhooks.ts';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { shared } from '../../helpers/shared.ts';

const SECRET = 'a secret between friends';
const MARKUP = '<script>alert(1)</script>';
const keys = generateKeyPairSync('ed25519');
const privateKey = keys.privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;

const app = shared(startTestApp);

async function ask(path: string, init: RequestInit = {}) {
  const response = await fetch(`${app.url}${path}`, init);
  const { status, headers } = response;
  return { status, text: await response.text(), type: headers.get('content-type'), headers };
}

function signed(scheme: string, value: unknown, secret = SECRET): RequestInit {
  const body = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const { definition } = presetNamed(scheme)!;
  const request = { body, method: 'POST', url: '', id: 'x', timeMs: Date.now() };
  const { headers } = signRequest(definition, Buffer.from(secret), request);
  return { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } };
}

const countEvents = async ({ id }: TestWebhook) => {
  const text = 'select count(*)::int as events from events where webhook_id = $1';
  return (await app.sql<{ events: number }>(text, id))[0]!.events;
};

describe('a handshake of Meta', () => {
  const query = (token: string, challenge: string) =>
    `?hub.mode=subscribe&hub.verify_token=${encodeURIComponent(token)}&hub.challenge=${encodeURIComponent(challenge)}`;
  let hook: TestWebhook;
  beforeAll(async () => {
    hook = await app.addWebhook({ signature_scheme: 'meta' as never, secret: SECRET, verify_token: 'a token' });
  });

  test('gets its challenge for the verify token', async () => {
    const answer = await ask(`${hook.path}${query('a token', '1158201444')}`);
    expect([answer.status, answer.text, answer.type]).toEqual([200, '1158201444', 'text/plain']);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  });

  test.each([
    ['another token', 'another', '1', 403],
    ['no token', '', '1', 403],
    ['markup', 'a token', MARKUP, 405],
  ])('with %s gets nothing back', async (_, token, challenge, status) => {
    const answer = await ask(`${hook.path}${query(token, challenge)}`);
    expect(answer.status).toBe(status);
    expect(answer.text).not.toContain(MARKUP);
  });

  test('without a verify token of the webhook is refused', async () => {
    const { path } = await app.addWebhook({ signature_scheme: 'meta' as never });
    expect((await ask(`${path}${query('', '1')}`)).status).toBe(403);
  });
});

test.each([
  ['its challenge', 'abc-123', 200],
  ['markup', MARKUP, 405],
  ['a line end', 'a\r\nb', 405],
  ['too much', 'a'.repeat(1_025), 405],
])('a handshake of Dropbox with %s', async (_, challenge, status) => {
  const { path } = await app.addWebhook({ signature_scheme: 'dropbox' as never });
  const answer = await ask(`${path}?challenge=${encodeURIComponent(challenge)}`);
  expect(answer.status).toBe(status);
  if (status === 200) expect([answer.text, answer.type]).toEqual([challenge, 'text/plain']);
  expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
});

describe('a handshake of Microsoft Graph', () => {
  test('gets its validation token back as text, without a signature', async () => {
    const { path } = await app.addWebhook({ signature_scheme: 'microsoft-graph' });
    const token = 'Validation: Testing client application reachability for subscription Request-Id: 1';
    const answer = await ask(`${path}?validationToken=${encodeURIComponent(token)}`, { method: 'POST' });
    expect([answer.status, answer.text, answer.type]).toEqual([200, token, 'text/plain']);
    const markup = await ask(`${path}?validationToken=${encodeURIComponent(MARKUP)}`, { method: 'POST', body: '{}' });
    expect(markup.status).toBe(403);
    expect(markup.text).not.toContain(MARKUP);
  });

  test('is answered for this scheme alone', async () => {
    const { path } = await app.addWebhook({ signature_scheme: 'github' });
    expect((await ask(`${path}?validationToken=x`, { method: 'POST', body: '{}' })).status).toBe(403);
  });
});

describe('a signed handshake', () => {
  const cases: [string, Partial<NewWebhook>, unknown, string, string?][] = [
    ['slack', {}, { type: 'url_verification', challenge: '3eZbrw1aB' }, '3eZbrw1aB'],
    [
      'zoom',
      {},
      { event: 'endpoint.url_validation', payload: { plainToken: 'qgg8vlvZRS6UYooatFL8Aw' } },
      JSON.stringify({
        plainToken: 'qgg8vlvZRS6UYooatFL8Aw',
        encryptedToken: createHmac('sha256', SECRET).update('qgg8vlvZRS6UYooatFL8Aw').digest('hex'),
      }),
    ],
    [
      'discord',
      {
        secret: null,
        public_key: keys.publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('hex'),
      },
      { type: 1 },
      '{"type":1}',
      privateKey,
    ],
  ];

  test.each(cases)('of %s is answered, and is not an event', async (scheme, given, body, expected, key) => {
    const hook = await app.addWebhook({ secret: SECRET, ...given, signature_scheme: scheme as 'slack' });
    const escaped = `\ufeff${JSON.stringify(body)}`.replaceAll('u', '\\u0075').replaceAll('t', '\\u0074');
    // Also when a letter of its JSON is escaped, and behind a byte order mark.
    for (const sent of [body, escaped]) {
      const answer = await ask(hook.path, signed(scheme, sent, key));
      expect([answer.status, answer.text]).toEqual([200, expected]);
    }
    const unsigned = await ask(hook.path, { method: 'POST', body: JSON.stringify(body) });
    expect(unsigned.status).toBe(scheme === 'discord' ? 401 : 403);
    expect(unsigned.text).not.toMatch(/3eZbrw1aB|qgg8vlvZRS6UYooatFL8Aw|encryptedToken/);
    expect(await countEvents(hook)).toBe(0);
  });

  test.each(['v0:1760000000:{"event":"x"}', '{"event":"x"}', 'a b', '', 'a'.repeat(257)])(
    'of Zoom with the token %j is stored as an event, not signed',
    async (plainToken) => {
      const hook = await app.addWebhook({ signature_scheme: 'zoom', secret: SECRET });
      const answer = await ask(
        hook.path,
        signed('zoom', { event: 'endpoint.url_validation', payload: { plainToken } }),
      );
      expect(answer.status).toBe(200);
      expect(answer.text).not.toContain('encryptedToken');
    },
  );

  test('of Discord events is answered 204, and an event of type 1 is stored', async () => {
    const hook = await app.addWebhook({ ...cases[2]![1], signature_scheme: 'discord' });
    expect((await ask(hook.path, signed('discord', { version: 1, type: 0 }, privateKey))).status).toBe(204);
    const event = { version: 1, type: 1, event: { type: 'APPLICATION_AUTHORIZED' } };
    expect((await ask(hook.path, signed('discord', event, privateKey))).status).toBe(204);
    expect(await countEvents(hook)).toBe(1);
  });
});

describe('a handshake of CloudEvents', () => {
  const options = (origin: string) => ({ method: 'OPTIONS', headers: { 'webhook-request-origin': origin } });

  test.each([
    ['sha256', {}],
    ['token', { signature_header: 'x-own' }],
    ['basic', { secret: 'user:password' }],
  ] as const)('is answered for %s', async (signature_scheme, given) => {
    const { path } = await app.addWebhook({ signature_scheme, rate_limit_max: 7, ...given });
    const answer = await ask(path, options('eventemitter.example.com'));
    expect(answer.status).toBe(200);
    expect(answer.headers.get('webhook-allowed-origin')).toBe('eventemitter.example.com');
    expect(answer.headers.get('webhook-allowed-rate')).toBe('7');
  });

  test('is not answered for another scheme, or for what is not an origin', async () => {
    const other = await app.addWebhook({ signature_scheme: 'stripe' });
    expect((await ask(other.path, options('a.example'))).status).toBe(405);
    const { path } = await app.addWebhook();
    for (const origin of ['<b>', 'a b', 'a/b', '*']) expect((await ask(path, options(origin))).status).toBe(405);
  });
});

test.each([
  ['GET', ''],
  ['GET', '?challenge=a'],
  ['GET', '?hub.mode=subscribe&hub.verify_token=&hub.challenge=1'],
  ['OPTIONS', ''],
])('%s %s of a webhook without that handshake stays 405', async (method, query) => {
  const { path } = await app.addWebhook({ signature_scheme: 'stripe' });
  const answer = await ask(`${path}${query}`, { method });
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST, HEAD']);
  expect((await ask(`/in/2f1c0d7e-5a31-4c8e-9b1f-0d6c2a7e4b15${query}`, { method })).status).toBe(405);
});
