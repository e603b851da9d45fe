/** The answer that the sender of a webhook demands. */
import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { answerFault } from '../../../server/model/signatures/answer.ts';
import { presetNamed, presets } from '../../../server/model/signatures/presets.ts';
import { signRequest } from '../../../server/model/signatures/sign.ts';
import type { NewWebhook } from '../../../server/model/webhooks.ts';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { signatureOf } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const SECRET = 'a secret between friends';
const app = shared(() => startTestApp({ RATE_LIMIT_INGEST_MAX: 10_000 }));
const operator = shared(() => addPerson(app, 'operator'));

async function post(to: Pick<TestWebhook, 'path'>, body: string, headers: Record<string, string> = {}) {
  const signature = signatureOf(SECRET, body);
  const init = { method: 'POST', body, headers: { 'X-Hub-Signature-256': signature, 'X-Once': '1', ...headers } };
  const response = await fetch(`${app.url}${to.path}`, init);
  return { status: response.status, text: await response.text(), headers: response.headers };
}

const idsOf = async ({ id }: { id: string }) => {
  const text = 'select id from events where webhook_id = $1 order by id';
  return (await app.sql<{ id: string }>(text, id)).map((row) => row.id);
};

const call = (method: string, path: string, body: unknown) => operator.api(method, `/api/v1/webhooks${path}`, body);

const own = { 'content-security-policy': 'sandbox', 'x-content-type-options': 'nosniff' };
const challenge = 'c'.repeat(1_024);

describe('an event is answered', () => {
  const byId = [202, 'application/json', /^\{"id":/] as const;
  const byDefault = [200, 'application/json', /^\{"id":/] as const;
  const xml = { status: 200, content_type: 'application/xml', body: '<Response/>' } as const;
  const from = (body_from: string) => ({ status: 200, body_from }) as const;
  type Case = [string, NewWebhook['answer'], string, readonly [number, string | null, string | RegExp]];
  const cases: Case[] = [
    ['by default with its id', null, '{}', byId],
    ['with a status', { status: 200 }, '{}', byDefault],
    ['with a body', { status: 200, body: '[accepted]' }, '{}', [200, 'text/plain', '[accepted]']],
    ['with an empty body', { status: 201, body: '' }, '{}', [201, 'text/plain', '']],
    ['with a body of a type', xml, '{}', [200, 'application/xml', '<Response/>']],
    ['without a body', { status: 204 }, '{}', [204, 'text/plain', '']],
    ['with a text', from('/a/challenge'), `{"a":{"challenge":"${challenge}"}}`, [200, 'text/plain', challenge]],
    ['with the default without that text', from('/challenge'), '{"a":1}', byDefault],
    ['with the default where it is a number', from('/challenge'), '{"challenge":1}', byDefault],
    ['with the default where it is too long', from('/challenge'), `{"challenge":"${challenge}c"}`, byDefault],
    ['with the default where it has too many bytes', from('/a'), `{"a":"${'é'.repeat(513)}"}`, byDefault],
  ];
  test.each(cases)('%s, and a duplicate in the same way', async (_what, answer, body, [status, type, text]) => {
    const hook = await app.addWebhook({ secret: SECRET, answer, dedupe_header: 'x-once' });
    for (const duplicate of [false, true]) {
      const answered = await post(hook, body);
      expect(answered.status).toBe(answer === null && duplicate ? 200 : status);
      expect(answered.headers.get('content-type')).toBe(type);
      expect(answered.text).toEqual(typeof text === 'string' ? text : expect.stringMatching(text));
      expect([answered.headers.get('x-weir-event-id')]).toEqual(await idsOf(hook));
      if (typeof text === 'string') expect(Object.fromEntries(answered.headers)).toMatchObject(own);
    }
  });

  test('in a batch with its ids, whatever the answer of the webhook', async () => {
    const hook = await app.addWebhook({ secret: SECRET, answer: { status: 200, body: 'ok' } });
    const answered = await post({ path: `${hook.path}/batch` }, '{}\n{}');
    expect([answered.status, JSON.parse(answered.text)]).toEqual([202, { accepted: 2, ids: await idsOf(hook) }]);
    expect(answered.headers.get('x-weir-event-id')).toBe((await idsOf(hook))[0]);
  });

  test('as its scheme says, until the webhook says otherwise', async () => {
    const scheme_definition = {
      algorithm: 'hmac-sha256' as const,
      header: 'x-hub-signature-256',
      prefix: 'sha256=',
      answer: { status: 200 as const, body: 'scheme' },
      refused_status: 401 as const,
    };
    const hook = await app.addWebhook({ secret: SECRET, signature_scheme: 'custom', scheme_definition });
    const wrong = { 'X-Hub-Signature-256': signatureOf('another', '{}') };
    expect(await post(hook, '{}')).toMatchObject({ status: 200, text: 'scheme' });
    expect((await post(hook, '{}', wrong)).status).toBe(401);
    await app.webhooks.update(hook.id, { answer: { status: 201, body: 'webhook' }, refused_status: 403 });
    expect(await post(hook, '{}')).toMatchObject({ status: 201, text: 'webhook' });
    expect((await post(hook, '{}', wrong)).status).toBe(403);
    await app.webhooks.update(hook.id, { answer: null, refused_status: null });
    expect(await post(hook, '{}')).toMatchObject({ status: 200, text: 'scheme' });
    expect((await post(hook, '{}', wrong)).status).toBe(401);
  });
});

describe('what a sender demands', () => {
  test('Xero, of its intent to receive', async () => {
    const hook = await app.addWebhook({ secret: SECRET, signature_scheme: 'xero' });
    const body = '{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"S0m3r4Nd0mT3xt"}';
    const sign = (key: string) => ({
      'x-xero-signature': createHmac('sha256', key).update(body).digest('base64'),
    });
    const right = await post(hook, body, sign(SECRET));
    expect([right.status, right.text, right.headers.get('set-cookie')]).toEqual([200, '', null]);
    expect((await post(hook, body, sign('another'))).status).toBe(401);
    expect(await idsOf(hook)).toHaveLength(1);
  });

  test('Twitch, of its challenge and of an event', async () => {
    const hook = await app.addWebhook({ secret: SECRET, signature_scheme: 'twitch' });
    const send = (type: string, body: string, key = SECRET) => {
      const [id, time] = [`msg-${type}`, new Date().toISOString().replace('Z', '123456Z')];
      const signature = signatureOf(key, id + time + body);
      return post(hook, body, {
        'Twitch-Eventsub-Message-Id': id,
        'Twitch-Eventsub-Message-Timestamp': time,
        'Twitch-Eventsub-Message-Signature': signature,
        'Twitch-Eventsub-Message-Type': type,
        'Twitch-Eventsub-Subscription-Type': 'channel.follow',
      });
    };
    const body = '{"challenge":"pogchamp-kappa-360noscope-vohiyo","subscription":{}}';
    expect((await send('webhook_callback_verification', body, 'another')).text).not.toContain('pogchamp');
    const verified = await send('webhook_callback_verification', body);
    expect([verified.status, verified.text, verified.headers.get('content-type')]).toEqual([
      200,
      'pogchamp-kappa-360noscope-vohiyo',
      'text/plain',
    ]);
    expect((await send('notification', '{"subscription":{},"event":{}}')).status).toBe(200);
  });

  // [preset, status, type, body]: its sender counts another answer as a failure.
  test.each([
    ['adyen', 200, 'text/plain', /^\[accepted\]$/],
    ['airtable', 204, 'text/plain', ''],
    ['linear', 200, 'application/json', /^\{"id":/],
    ['twilio', 200, 'application/xml', /^<Response\/>$/],
  ] as const)('%s, of an event and of its duplicate', async (signature_scheme, status, type, text) => {
    const secret = Buffer.from('user:password').toString('base64');
    const given = presetNamed(signature_scheme)!.definition;
    const key = given.algorithm === 'basic' ? 'user:password' : secret;
    const hook = await app.addWebhook({ secret: key, signature_scheme });
    const url = `${app.settings.FRONTEND_PUBLIC_API_URL}${hook.path}`;
    const body = Buffer.from('{"hello":"world"}');
    const signed = signRequest(given, Buffer.from(key), { body, method: 'POST', url, id: 'evt-1', timeMs: Date.now() });
    const headers = { 'content-type': 'application/json', ...signed.headers };
    for (let i = 0; i < 2; i++) {
      const answered = await fetch(app.url + hook.path, { method: 'POST', headers, body: new Uint8Array(signed.body) });
      const seen = [answered.status, answered.headers.get('content-type'), await answered.text()];
      expect(seen).toEqual([status, type, typeof text === 'string' ? text : expect.stringMatching(text)]);
    }
  });

  test('of every preset fits together, and is in its table', () => {
    for (const { name, definition, demands } of presets) {
      if (definition.answer !== undefined) expect([name, answerFault(definition.answer, true)]).toEqual([name, null]);
      const isOther = definition.answer !== undefined || definition.refused_status !== undefined;
      if (isOther) expect([name, demands]).toEqual([name, expect.anything()]);
    }
  });
});

describe('an answer is refused', () => {
  test.each([
    [{ status: 204, body: '' }],
    [{ status: 204, content_type: 'text/plain' }],
    [{ status: 204, body_from: '/a' }],
    [{ status: 200, body: 'a', body_from: '/a' }],
    [{ status: 200, content_type: 'text/plain' }],
    [{ status: 200, body_from: '/a' }],
  ])('%j with answer_invalid, when it is given and when it is changed', async (answer) => {
    const fault = { status: 422, body: { code: 'answer_invalid', errors: [{ pointer: '/answer' }] } };
    expect(await call('POST', '', { name: 'a', answer })).toMatchObject(fault);
    const { id } = await app.addWebhook({ secret: null });
    expect(await call('PATCH', `/${id}`, { answer })).toMatchObject(fault);
  });

  test.each([
    [{ status: 302 }],
    [{ status: 200, body: 'a\nb' }],
    [{ status: 200, body: 'é'.repeat(513) }],
    [{ status: 200, content_type: 'text/html', body: 'a' }],
    [{ status: 200, body_from: 'a' }],
    [{ status: 200, more: 1 }],
  ])('%j with invalid_request', async (answer) => {
    expect(await call('POST', '', { name: 'a', answer })).toMatchObject({
      status: 422,
      body: { code: 'invalid_request' },
    });
  });

  test('when its scheme no longer verifies, or is part of a definition', async () => {
    const keyed = await app.addWebhook({ secret: null, signature_scheme: 'discord', public_key: 'ab'.repeat(32) });
    expect((await call('PATCH', `/${keyed.id}`, { answer: { status: 200, body_from: '/a' } })).status).toBe(200);
    const invalid = { status: 422, body: { code: 'answer_invalid' } };
    const open = { signature_scheme: 'sha256', public_key: null, unverified: true };
    expect(await call('PATCH', `/${keyed.id}`, open)).toMatchObject(invalid);
    const scheme_definition = { algorithm: 'token', header: 'x-own', answer: { status: 204, body: '' } };
    const given = { name: 'a', signature_scheme: 'custom', secret: 'a', scheme_definition };
    expect(await call('POST', '', given)).toMatchObject(invalid);
  });

  test('the largest one is taken, and shown', async () => {
    const answer = { status: 200, content_type: 'text/plain', body: 'é'.repeat(512) };
    const made = await call('POST', '', { name: 'a', answer, refused_status: 401 });
    expect(made).toMatchObject({ status: 201, body: { answer, refused_status: 401 } });
  });
});

describe('HEAD', () => {
  const head = async (path: string) => {
    const response = await fetch(app.url + path, { method: 'HEAD' });
    return [response.status, await response.text()];
  };

  test('of a webhook is answered 200 without a body, and stores nothing', async () => {
    const hook = await app.addWebhook({ secret: SECRET, signature_scheme: 'trello' });
    expect(await head(hook.path)).toEqual([200, '']);
    expect(await head(`${hook.path}?memberID=14`)).toEqual([200, '']);
    expect(await idsOf(hook)).toEqual([]);
    await app.webhooks.update(hook.id, { enabled: false });
    expect(await head(hook.path)).toEqual([410, '']);
    expect(await head('/in/2f1c0d7e-5a31-4c8e-9b1f-0d6c2a7e4b15')).toEqual([404, '']);
  });

  test('counts in the limit', async () => {
    const hook = await app.addWebhook({ secret: SECRET, rate_limit_max: 2 });
    // The first request of a process for a webhook counts in the default limit.
    await until(async () => (await head(hook.path))[0] === 429);
    expect((await post(hook, '{}')).status).toBe(429);
  });
});
