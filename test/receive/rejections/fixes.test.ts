/** Rejections fixed by one request: the webhook is changed, the similar ones are checked again, and those that verify are accepted. */
import { createHmac, generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { rejectionReasonNames } from '../../../server/model/signatures/diagnosis/reasons.ts';
import { presetNamed, presets } from '../../../server/model/signatures/presets.ts';
import { fixesOf } from '../../../server/receive/rejections/fixes.ts';
import { SIMILAR_MAX } from '../../../server/receive/rejections/recheck.ts';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { signatureOf } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const SECRET = 'what the sender has 51c0';
const BODY = '{"order":17}';

describe('the fixes', () => {
  const rejected = {
    reason: 'digest_differs',
    checked_reason: null,
    header: null,
    otherwise_valid: null,
    other_webhook: null,
    signature_scheme: 'sha256',
    public_key: null,
    accepted_event_id: null,
  } as const;

  test.each(rejectionReasonNames)('of %s name only schemes that exist', (reason) => {
    for (const { schemes } of fixesOf({ ...rejected, reason, header: 'svix-signature' }))
      expect(schemes.map((name) => presetNamed(name)?.name)).toEqual(schemes);
  });

  const kinds = (given: object) => fixesOf({ ...rejected, ...given }).map(({ kind, needs }) => [kind, needs]);
  test.each([
    ['another header', { reason: 'header_other', header: 'x-signature' }, [['use_header', null]]],
    ['another header of a preset', { reason: 'header_other', header: 'x', signature_scheme: 'stripe' }, []],
    ['Stripe with this secret', { reason: 'scheme_stripe', otherwise_valid: true }, [['set_scheme', null]]],
    ['Stripe with another secret', { reason: 'scheme_stripe', otherwise_valid: false }, [['set_scheme', 'secret']]],
    ['Discord', { reason: 'scheme_ed25519' }, [['set_scheme', 'public_key']]],
    ['another digest', {}, [['set_secret', 'secret']]],
    [
      'another digest, checked again',
      { reason: 'scheme_stripe', checked_reason: 'digest_differs' },
      [['set_secret', 'secret']],
    ],
    [
      'another webhook',
      { reason: 'other_webhook', other_webhook: { id: 'x', name: 'y' } },
      [
        ['open_webhook', null],
        ['set_secret', 'secret'],
      ],
    ],
    ['a mistake of the sender', { reason: 'body_trimmed' }, []],
    ['a request that verifies', { checked_reason: 'verifies_now' }, []],
    ['an accepted one', { accepted_event_id: 'x' }, []],
  ])('of %s', (_, given, expected) => expect(kinds(given)).toEqual(expected));

  test('of a header that many senders use are left out', () => {
    const shared = presets
      .map(({ definition }) => definition.header)
      .find((header, i, all) => header && all.indexOf(header) < i)!;
    for (const { schemes } of fixesOf({ ...rejected, reason: 'scheme_other', header: shared }))
      expect(schemes.length).toBeLessThanOrEqual(12);
  });
});

const app = shared(startTestApp);
const operator = shared(() => addPerson(app, 'operator'));

const stripe = (secret: string) => {
  const at = Math.floor(Date.now() / 1000);
  return `t=${at},v1=${createHmac('sha256', secret).update(`${at}.${BODY}`).digest('hex')}`;
};

async function rejectionsOf({ id }: TestWebhook) {
  return (await operator.api('GET', `/api/v1/rejections?webhook_id=${id}&limit=200`)).body.items;
}

const send = (webhook: TestWebhook, headers: Record<string, string>, body = BODY) =>
  fetch(webhook.url, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } });

/** Sends the requests, all refused; returns their rejections, newest first. */
async function refused(webhook: TestWebhook, ...requests: Record<string, string>[]) {
  for (const headers of requests) expect((await send(webhook, headers)).status).toBe(403);
  return until(async () => {
    const items = await rejectionsOf(webhook);
    return items.length === requests.length && items;
  });
}

const fix = (id: string, input: object) => operator.api('POST', `/api/v1/rejections/${id}/fix`, input);

describe('a fix', () => {
  test('“Use header” changes the webhook, and all similar rejections are accepted in their order', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    const bodies = ['{"n":1}', '{"n":2}', '{"n":3}'];
    for (const body of bodies) {
      expect((await send(webhook, { 'x-signature': signatureOf(SECRET, body) }, body)).status).toBe(403);
      // Rejections of one millisecond have any order.
      const answeredMs = Date.now();
      await until(() => Date.now() > answeredMs);
    }
    const items = await until(async () => {
      const found = await rejectionsOf(webhook);
      return found.length === 3 && found;
    });
    const { id, fixes } = items[0];
    expect(fixes).toMatchObject([{ kind: 'use_header', title: 'Use header x-signature', header: 'x-signature' }]);
    const fixed = await fix(id, { kind: 'use_header' });
    expect(fixed.body).toEqual({ webhook_id: webhook.id, checked: 3, verified: 3 });
    expect((await operator.api('GET', `/api/v1/webhooks/${webhook.id}`)).body.signature_header).toBe('x-signature');
    expect((await send(webhook, { 'x-signature': signatureOf(SECRET, BODY) })).status).toBe(202);
    const { body: groups } = await operator.api('GET', `/api/v1/rejections/groups?webhook_id=${webhook.id}`);
    expect(groups.items).toMatchObject([{ reason: 'header_other', rejections: 3, sources: 1, acceptable: 3 }]);
    expect(groups.items[0].newest).toHaveLength(3);

    const accepted = await operator.api('POST', '/api/v1/rejections/accept', { webhook_id: webhook.id });
    expect(accepted.body).toEqual({ accepted: 3, refused: 0, more: false });
    const events = (await operator.api('GET', `/api/v1/events?webhook_id=${webhook.id}`)).body.items;
    const stored = await Promise.all(
      events.map(async (event: { id: string }) => (await operator.api('GET', `/api/v1/events/${event.id}/body`)).text),
    );
    expect(stored.reverse().filter((body) => body !== BODY)).toEqual(bodies);
    const again = await operator.api('POST', '/api/v1/rejections/accept', { webhook_id: webhook.id });
    expect(again.body).toEqual({ accepted: 0, refused: 0, more: false });

    const entries = await app.sql<{ entry: { action: string; after: object } }>(
      `select entry from audit_log where target_id in ($1, $2) and entry->>'action' in ('webhook.update', 'rejection.fix') order by number`,
      webhook.id,
      id,
    );
    expect(entries.map(({ entry }) => entry)).toMatchObject([
      { action: 'webhook.update', after: { signature_header: 'x-signature' } },
      { action: 'rejection.fix', after: { fix: 'use_header', checked: 3, verified: 3 } },
    ]);
  });

  test('“Set the scheme” keeps a secret that fits', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    const [rejection] = await refused(webhook, { 'stripe-signature': stripe(SECRET) });
    expect(rejection.fixes).toMatchObject([{ title: 'Set the scheme to Stripe', schemes: ['stripe'], needs: null }]);
    const fixed = await fix(rejection.id, { kind: 'set_scheme', signature_scheme: 'stripe' });
    expect(fixed.body).toMatchObject({ checked: 1, verified: 1 });
    expect((await send(webhook, { 'stripe-signature': stripe(SECRET) })).status).toBe(202);
  });

  test('“Set the scheme” with the sender’s secret replaces both in one change', async () => {
    const webhook = await app.addWebhook({ secret: 'another secret' });
    const [rejection] = await refused(webhook, { 'stripe-signature': stripe(SECRET) });
    expect(rejection.fixes).toMatchObject([{ kind: 'set_scheme', needs: 'secret' }]);
    const fixed = await fix(rejection.id, { kind: 'set_scheme', signature_scheme: 'stripe', secret: SECRET });
    expect([fixed.status, fixed.body.verified, fixed.text.includes(SECRET)]).toEqual([200, 1, false]);
    expect((await send(webhook, { 'stripe-signature': stripe(SECRET) })).status).toBe(202);
  });

  test('that does not fit the scheme is refused, and changes nothing', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    const [rejection] = await refused(webhook, { 'stripe-signature': stripe(SECRET) });
    const keyed = await fix(rejection.id, { kind: 'set_scheme', signature_scheme: 'stripe', public_key: 'ab' });
    expect([keyed.status, keyed.body.errors[0].pointer]).toEqual([422, '/public_key']);
    const headerless = await fix(rejection.id, { kind: 'set_secret' });
    expect([headerless.status, headerless.body.errors[0].pointer]).toEqual([422, '/secret']);
    const { body } = await operator.api('GET', `/api/v1/webhooks/${webhook.id}`);
    expect(body).toMatchObject({ signature_scheme: 'sha256', public_key: null });
    expect((await send(webhook, { 'x-hub-signature-256': signatureOf(SECRET, BODY) })).status).toBe(202);
  });

  test('that is not among the fixes of the rejection is refused, and the webhook continues to verify', async () => {
    const { publicKey } = generateKeyPairSync('ed25519');
    const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64');
    const keyed = { secret: null, signature_scheme: 'standard-webhooks', public_key: `whpk_${key}` };
    const webhook = await app.addWebhook(keyed);
    const [unsigned] = await refused(webhook, {});
    const stripeOne = await app.addWebhook({ secret: SECRET });
    const [ofStripe] = await refused(stripeOne, { 'stripe-signature': stripe(SECRET) });
    for (const [id, input, pointer] of [
      // The webhook would take every request.
      [unsigned.id, { kind: 'set_scheme', signature_scheme: 'sha256' }, '/kind'],
      [unsigned.id, { kind: 'use_header' }, '/kind'],
      [ofStripe.id, { kind: 'set_secret', secret: 'x' }, '/kind'],
      [ofStripe.id, { kind: 'set_scheme', signature_scheme: 'svix', secret: 'whsec_AAAA' }, '/signature_scheme'],
    ]) {
      const answer = await fix(id, input);
      expect([answer.status, answer.body.errors?.[0].pointer]).toEqual([422, pointer]);
    }
    for (const { id, signature_scheme } of [
      { ...webhook, ...keyed },
      { ...stripeOne, signature_scheme: 'sha256' },
    ])
      expect((await operator.api('GET', `/api/v1/webhooks/${id}`)).body).toMatchObject({ signature_scheme });
    expect((await send(webhook, {})).status).toBe(403);
  });

  test('“Paste the sender’s secret” keeps the present one for a day', async () => {
    const PASTED = 'only this sender has it 9a1c';
    const webhook = await app.addWebhook({ secret: 'another secret' });
    const [rejection] = await refused(webhook, { 'x-hub-signature-256': signatureOf(PASTED, BODY) });
    expect(rejection.fixes).toMatchObject([{ kind: 'set_secret', needs: 'secret' }]);
    expect((await fix(rejection.id, { kind: 'set_secret', secret: 'wrong again' })).body.verified).toBe(0);
    expect((await fix(rejection.id, { kind: 'set_secret', secret: PASTED })).body.verified).toBe(1);
    expect((await send(webhook, { 'x-hub-signature-256': signatureOf(PASTED, BODY) })).status).toBe(202);
    expect((await send(webhook, { 'x-hub-signature-256': signatureOf('wrong again', BODY) })).status).toBe(202);
  });

  test('names the webhook whose secret the sender has', async () => {
    const NAMED = 'of the other webhook 77b2';
    const [webhook, other] = [await app.addWebhook(), await app.addWebhook({ name: 'the other', secret: NAMED })];
    const [rejection] = await refused(webhook, { 'x-hub-signature-256': signatureOf(NAMED, BODY) });
    expect(rejection.fixes[0]).toMatchObject({ kind: 'open_webhook', title: 'Open the other', webhook_id: other.id });
  });

  test(`checks the rejection itself and at most ${SIMILAR_MAX} in all`, async () => {
    const webhook = await app.addWebhook({ secret: 'another secret' });
    const [oldest] = await refused(webhook, { 'x-hub-signature-256': signatureOf(SECRET, BODY) });
    await app.sql(
      `insert into rejections (id, webhook_id, received_at, source_ip, reason, header, otherwise_valid, headers, signatures, body, bytes, batch)
             select overlay(id::text placing lpad(to_hex(i), 12, 'f') from 25)::uuid, webhook_id, received_at, source_ip, reason, header,
               otherwise_valid, headers, signatures, body, bytes, batch
             from rejections, generate_series(1, $2::int) i where id = $1`,
      oldest.id,
      SIMILAR_MAX + 20,
    );
    const fixed = await fix(oldest.id, { kind: 'set_secret', secret: SECRET });
    expect(fixed.body).toMatchObject({ checked: SIMILAR_MAX, verified: SIMILAR_MAX });
    expect((await operator.api('GET', `/api/v1/rejections/${oldest.id}`)).body.last_check.verified).toBe(true);
    const accept = () => operator.api('POST', '/api/v1/rejections/accept', { webhook_id: webhook.id });
    expect((await accept()).body).toEqual({ accepted: 100, refused: 0, more: false });
  });
});
