/** Webhooks of each kind of signature scheme: real requests verify, and what is stored of them. */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { SchemeDefinition } from '../../../server/model/signatures/definition.ts';
import { definitionOf, presetNamed } from '../../../server/model/signatures/presets.ts';
import { type Signed, signRequest } from '../../../server/model/signatures/sign.ts';
import type { NewWebhook } from '../../../server/model/webhooks.ts';
import { findWebhook } from '../../../server/store/queries/webhooks/webhooks.ts';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const BODY = Buffer.from('{"hello":"world"}');
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const ed25519 = generateKeyPairSync('ed25519');
const pem = (key: typeof ed25519.privateKey) => key.export({ format: 'pem', type: 'pkcs8' }) as string;

const app = shared(startTestApp);
let sent = 0;

interface Hook extends TestWebhook {
  definition: SchemeDefinition;
}

async function addHook(given: Partial<NewWebhook>): Promise<Hook> {
  const webhook = await app.addWebhook({ secret: SECRET, ...given });
  const definition = definitionOf({
    signatureScheme: given.signature_scheme ?? 'custom',
    schemeDefinition: given.scheme_definition ?? null,
    signatureHeader: given.signature_header ?? null,
    publicKey: given.public_key ?? null,
  })!;
  return { ...webhook, definition };
}

/** Status of the response to a stored request. */
const storedStatus = ({ definition }: Hook) => definition.answer?.status ?? 202;

/** A signed request to the webhook, as its sender knows it. */
function sign(hook: Hook, { secret = SECRET, secondsAgo = 0, path = hook.path, id = `evt-${sent++}` } = {}): Signed {
  return signRequest(hook.definition, Buffer.from(secret), {
    body: BODY,
    method: 'POST',
    url: `${app.settings.FRONTEND_PUBLIC_API_URL}${path}`,
    id,
    timeMs: Date.now() - secondsAgo * 1000,
  });
}

async function post(path: string, { headers, body }: Signed, contentType = 'application/json') {
  const response = await fetch(`${app.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': contentType, ...headers },
    body: new Uint8Array(body),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    ...(JSON.parse(text.startsWith('{') ? text : '{}') as { id?: string; code?: string; detail?: string }),
  };
}

const simple: [string, Partial<NewWebhook>, string?][] = [
  ['stripe', { signature_scheme: 'stripe' }],
  ['basic', { signature_scheme: 'basic', secret: 'user:password' }, 'user:password'],
  ['mailgun', { signature_scheme: 'mailgun' }],
  [
    'discord',
    {
      signature_scheme: 'discord',
      secret: null,
      public_key: ed25519.publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('hex'),
    },
    pem(ed25519.privateKey),
  ],
  [
    'custom',
    {
      signature_scheme: 'custom',
      scheme_definition: {
        algorithm: 'hmac-sha512',
        header: 'x-own-signature',
        content: '{method} {url}\n{timestamp}\n{body}',
        timestamp: { from: 'header:x-own-time', unit: 'ms', tolerance: 60 },
        encoding: 'base64url',
      },
    },
  ],
];

describe('a signed request', () => {
  test.each(simple)(
    'of %s verifies; another key, another body and no signature are refused',
    async (name, given, secret) => {
      const hook = await addHook(given);
      const key = secret ?? SECRET;
      const status = name === 'discord' ? 401 : 403;
      const good = sign(hook, { secret: key });
      expect(await post(hook.path, good)).toMatchObject({ status: storedStatus(hook) });
      expect((await post(hook.path, { headers: {}, body: BODY })).status).toBe(status);
      if (!secret?.startsWith('-----'))
        expect(
          (await post(hook.path, sign(hook, { secret: name === 'basic' ? 'user:other' : 'whsec_AAAAAAAA' }))).status,
        ).toBe(status);
      if (['basic', 'mailgun'].includes(name)) return;
      const other = await post(hook.path, {
        headers: good.headers,
        body: Buffer.concat([good.body, Buffer.from(' ')]),
      });
      expect(other.status).toBe(status);
    },
  );

  test.each(['stripe', 'standard-webhooks', 'shopify', 'mailgun', 'twilio', 'microsoft-graph'])(
    'of %s is stored at one address only',
    async (signature_scheme) => {
      const hook = await addHook({ signature_scheme });
      const signed = sign(hook);
      expect((await post(hook.path, signed)).status).toBe(storedStatus(hook));
      const again = await post(`${hook.path}/batch`, signed);
      expect(again).toMatchObject({ status: 422, code: 'batch_unsupported' });
      expect(await countEvents(hook.id)).toBe(1);
    },
  );

  test.each([
    ['/batch', ''],
    ['', '/batch'],
  ])('of a definition that signs lines is stored at %s/, and not again at %s/', async (first, second) => {
    const scheme_definition = {
      algorithm: 'hmac-sha256' as const,
      header: 'x-own',
      content: '{id}.{body}',
      id: 'header:x-own-id',
      batch: true,
    };
    const hook = await addHook({ signature_scheme: 'custom', scheme_definition });
    const signed = sign(hook);
    expect((await post(`${hook.path}${first}`, signed)).status).toBe(202);
    expect((await post(`${hook.path}${second}`, signed)).status).toBe(200);
    expect(await countEvents(hook.id)).toBe(1);
  });

  test('without id and time can be a batch, whose lines a dedupe_header tells apart', async () => {
    const hook = await addHook({ signature_scheme: 'github', dedupe_header: 'x-github-delivery' });
    const signed = sign(hook);
    const headers = { ...signed.headers, 'x-github-delivery': '1' };
    const path = `${hook.path}/batch`;
    expect([
      (await post(path, { ...signed, headers })).status,
      (await post(path, { ...signed, headers })).status,
    ]).toEqual([202, 200]);
  });
});

async function countEvents(webhookId: string): Promise<number> {
  const [row] = await app.sql<{ count: number }>(
    'select count(*)::int as count from events where webhook_id = $1',
    webhookId,
  );
  return row!.count;
}

describe('a body over the bounds of its scheme', () => {
  const form = (fields: number) =>
    Buffer.from(Array.from({ length: fields }, (_, i) => `${i.toString(36)}=`).join('&'));

  test('is refused with its own code and kept as a rejection that names the bound', async () => {
    const hook = await addHook({ signature_scheme: 'twilio' });
    const { headers } = sign(hook);
    const urlEncoded = 'application/x-www-form-urlencoded';
    const answer = await post(hook.path, { headers, body: form(150_000) }, urlEncoded);
    expect(answer).toMatchObject({ status: 403, code: 'signature_body_too_complex' });
    expect((await post(hook.path, { headers, body: form(1_001) }, urlEncoded)).status).toBe(403);
    expect((await post(hook.path, { headers, body: form(1_000) }, urlEncoded)).code).toBe('signature_mismatch');
    const reasons = () =>
      app.sql<{ reason: string; large: boolean }>(
        'select reason::text as reason, body is null as large from rejections where webhook_id = $1 order by bytes desc',
        hook.id,
      );
    await until(async () => (await reasons()).length === 3);
    expect(await reasons()).toEqual([
      { reason: 'body_too_complex', large: true },
      { reason: 'body_too_complex', large: false },
      { reason: 'digest_differs', large: false },
    ]);
  });

  test('does not hold up a valid request of another webhook', async () => {
    const [hook, other] = [
      await addHook({ signature_scheme: 'twilio' }),
      await addHook({ signature_scheme: 'stripe' }),
    ];
    const { headers } = sign(hook);
    const answers = await Promise.all([
      ...Array.from({ length: 5 }, () => post(hook.path, { headers, body: form(150_000) })),
      post(other.path, sign(other)),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403, 403, 403, 202]);
  });
});

describe('the time of a request', () => {
  test.each([
    ['behind', 310],
    ['ahead of', -310],
  ])(
    '%s the clock by more than the tolerance is refused, and the response states the distance',
    async (side, secondsAgo) => {
      const hook = await addHook({ signature_scheme: 'stripe' });
      const answer = await post(hook.path, sign(hook, { secondsAgo }));
      expect(answer).toMatchObject({ status: 403, code: 'signature_timestamp' });
      expect(answer.detail).toMatch(
        new RegExp(`is 3(09|10|11) s ${side} the clock of this server; the webhook allows 300 s`),
      );
      expect((await post(hook.path, sign(hook, { secondsAgo: secondsAgo * 0.9 }))).status).toBe(202);
    },
  );

  test('in the body is checked too', async () => {
    const hook = await addHook({ signature_scheme: 'linear' });
    expect(await post(hook.path, sign(hook, { secondsAgo: 65 }))).toMatchObject({ code: 'signature_timestamp' });
  });

  test('is judged only if the signature is valid', async () => {
    const hook = await addHook({ signature_scheme: 'stripe' });
    const answer = await post(hook.path, sign(hook, { secondsAgo: 9_000, secret: 'another' }));
    expect(answer).toMatchObject({ status: 403, code: 'signature_mismatch' });
  });

  test.each([
    [0, 100_000, 202],
    [10, 15, 403],
    [1_000, 900, 202],
  ])('with tolerance_seconds %i and %i s ago is answered %i', async (tolerance_seconds, secondsAgo, status) => {
    const hook = await addHook({ signature_scheme: 'stripe', tolerance_seconds });
    expect((await post(hook.path, sign(hook, { secondsAgo }))).status).toBe(status);
  });
});

describe('a repeated request', () => {
  test.each([
    ['standard-webhooks', 'webhook-id'],
    ['shopify', 'x-shopify-webhook-id'],
  ] as const)('of %s is known by its id', async (signature_scheme, _header) => {
    const hook = await addHook({ signature_scheme });
    const first = await post(hook.path, sign(hook, { id: 'msg-1' }));
    const again = await post(hook.path, sign(hook, { id: 'msg-1', secondsAgo: 3 }));
    expect([first.status, again.status, again.id]).toEqual([202, 200, first.id]);
    expect((await post(hook.path, sign(hook, { id: 'msg-2' }))).status).toBe(202);
  });

  test('of mailgun is known by the token in its body', async () => {
    const hook = await addHook({ signature_scheme: 'mailgun' });
    const signed = sign(hook);
    const first = await post(hook.path, signed);
    expect(await post(hook.path, signed)).toMatchObject({ status: 200, id: first.id, duplicate: true });
  });

  test('of a webhook with a dedupe_header is known by that alone', async () => {
    const hook = await addHook({ signature_scheme: 'standard-webhooks', dedupe_header: 'x-own-id' });
    const signed = sign(hook, { id: 'msg-1' });
    expect([(await post(hook.path, signed)).status, (await post(hook.path, signed)).status]).toEqual([202, 202]);
    const own = { ...signed, headers: { ...signed.headers, 'x-own-id': '1' } };
    expect([(await post(hook.path, own)).status, (await post(hook.path, own)).status]).toEqual([202, 200]);
  });

  test('of github is stored again, because its manual redelivery repeats the id', async () => {
    const hook = await addHook({ signature_scheme: 'github' });
    const signed = sign(hook);
    const headers = { ...signed.headers, 'x-github-delivery': '1' };
    for (let i = 0; i < 2; i++) expect((await post(hook.path, { ...signed, headers })).status).toBe(202);
  });
});

test('ids and times are stored with the headers, signatures are not', async () => {
  const hook = await addHook({ signature_scheme: 'standard-webhooks' });
  const { id } = await post(hook.path, sign(hook, { id: 'msg-9' }));
  const [row] = await app.sql<{ headers: string }>(
    `select convert_from(headers, 'UTF8') as headers from events where id = $1`,
    id,
  );
  expect(row!.headers).toContain('webhook-id: msg-9');
  expect(row!.headers).toMatch(/webhook-timestamp: \d{10}/);
  expect(row!.headers).not.toContain('webhook-signature');
});

test('a stored webhook with a header name that does not arrive on Node 20 still loads, and refuses what it cannot verify', async () => {
  const hook = await addHook({
    signature_scheme: 'custom',
    scheme_definition: { algorithm: 'token', header: 'x-own' },
  });
  const stored = JSON.stringify({ algorithm: 'token', header: 'x_own' });
  await app.sql(
    `update webhooks set scheme_definition = $2, dedupe_header = 'x_id', event_type_from = 'header:x_type' where id = $1`,
    hook.id,
    stored,
  );
  await until(async () => (await post(hook.path, { headers: { 'x-own': SECRET }, body: BODY })).status === 403);
  const kept = await findWebhook(app.database.query, hook.id);
  expect(kept).toMatchObject({ scheme_definition: JSON.parse(stored), dedupe_header: 'x_id' });
  const answer = await post(hook.path, { headers: { x_own: SECRET }, body: BODY }).catch(() => ({ status: 'closed' }));
  const isNode20 = process.versions.node.startsWith('20.');
  expect(answer.status).toBe(isNode20 ? 'closed' : 202);
});

test('a webhook changes between the two keys of its scheme', async () => {
  const scheme = 'standard-webhooks';
  const hook = await addHook({ signature_scheme: scheme });
  const public_key = `whpk_${ed25519.publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64')}`;
  const keyed = { ...hook, definition: presetNamed(scheme)!.publicKeyDefinition! };
  const bySecret = async () => (await post(hook.path, sign(hook))).status;
  const byKey = async () => (await post(hook.path, sign(keyed, { secret: pem(ed25519.privateKey) }))).status;
  expect([await bySecret(), await byKey()]).toEqual([202, 403]);
  await app.webhooks.update(hook.id, { public_key });
  await until(async () => (await byKey()) === 202);
  expect(await bySecret()).toBe(403);
  await app.webhooks.rotate(hook.id, { secret: SECRET, overlap_seconds: 0 });
  await app.webhooks.update(hook.id, { public_key: null });
  await until(async () => (await bySecret()) === 202);
  expect(await byKey()).toBe(403);
});

test('a scheme that this build does not know verifies nothing', async () => {
  const hook = await addHook({ signature_scheme: 'stripe' });
  await app.sql(`update webhooks set signature_scheme = 'later' where id = $1`, hook.id);
  await until(async () => (await post(hook.path, sign(hook))).status === 503);
  expect(await post(hook.path, sign(hook))).toMatchObject({ code: 'secret_unavailable' });
  expect((await app.webhooks.update(hook.id, { enabled: false })).kind).toBe('done');
});
