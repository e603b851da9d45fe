/** Requests that the senders' own libraries sign. */
import * as octokit from '@octokit/webhooks-methods';
import * as standardWebhooks from 'standardwebhooks';
import Stripe from 'stripe';
import * as svix from 'svix';
import twilio from 'twilio/lib/webhooks/webhooks.js';
import { describe, expect, test } from 'vitest';
import { keyOf } from '../../../server/model/signatures/keys.ts';
import { presetNamed } from '../../../server/model/signatures/presets.ts';
import { readSecretUses } from '../../../server/store/queries/webhooks/secrets.ts';
import { startTestApp } from '../../helpers/app.ts';
import { shared } from '../../helpers/shared.ts';
import { type SignedTestRequest, URL_OF_HOOK, verifies } from '../../helpers/signed.ts';
import { until } from '../../helpers/wait.ts';

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const BODY = '{"id":"evt_17","größe":"水 🌊"}\n';

/** `sign` signs BODY with SECRET at the current time, and returns the headers that the sender adds. `id` is the message's. */
const senders: [preset: string, sign: (id: string) => Promise<Record<string, string>>][] = [
  [
    'stripe',
    async () => ({
      'stripe-signature': await Stripe.webhooks.generateTestHeaderStringAsync({ payload: BODY, secret: SECRET }),
    }),
  ],
  [
    'standard-webhooks',
    async (id) => {
      const now = new Date();
      return {
        'webhook-id': id,
        'webhook-timestamp': seconds(now),
        'webhook-signature': new standardWebhooks.Webhook(SECRET).sign(id, now, BODY),
      };
    },
  ],
  [
    'svix',
    async (id) => {
      const now = new Date();
      return {
        'svix-id': id,
        'svix-timestamp': seconds(now),
        'svix-signature': new svix.Webhook(SECRET).sign(id, now, BODY),
      };
    },
  ],
  ['github', async () => ({ 'x-hub-signature-256': await octokit.sign(SECRET, BODY) })],
];

function seconds(time: Date): string {
  return String(Math.floor(time.getTime() / 1000));
}

/** The request with one byte of its body changed, or one character of a header: signature, time or id. */
function changedRequests({ headers, body }: SignedTestRequest): SignedTestRequest[] {
  const changed: SignedTestRequest[] = [];
  for (let at = 0; at < body.length; at++) {
    const other = Buffer.from(body);
    other[at] = other[at]! ^ 1;
    changed.push({ headers, body: other });
  }
  for (const [name, value] of Object.entries(headers))
    for (let at = 0; at < value.length; at++) {
      const other = value.slice(0, at) + (value[at] === '0' ? '1' : '0') + value.slice(at + 1);
      changed.push({ headers: { ...headers, [name]: other }, body });
    }
  return changed;
}

describe('a request that the library signed', () => {
  const app = shared(startTestApp);

  test.each(senders)('of %s verifies, and not with one byte of its body or headers changed', async (preset, sign) => {
    const { definition } = presetNamed(preset)!;
    const keys = [keyOf(definition, Buffer.from(SECRET))];
    const signed = { headers: await sign('msg_1'), body: Buffer.from(BODY) };
    expect(verifies(definition, keys, signed)).toBe(true);
    const changed = changedRequests(signed);
    expect(changed.length).toBeGreaterThan(signed.body.length);
    expect(changed.filter((request) => verifies(definition, keys, request))).toEqual([]);
  });

  test('of polar verifies with a secret of either kind, which counts as one', async () => {
    const { path, id } = await app.addWebhook({ secret: SECRET, signature_scheme: 'polar' });
    const now = new Date();
    const post = (key: standardWebhooks.Webhook, message: string, body = BODY) =>
      fetch(`${app.url}${path}`, {
        method: 'POST',
        headers: {
          'webhook-id': message,
          'webhook-timestamp': seconds(now),
          'webhook-signature': key.sign(message, now, BODY),
        },
        body,
      });
    const current = new standardWebhooks.Webhook(SECRET);
    // Secrets that Polar generated before 8 September 2026: the key is the text.
    const legacy = new standardWebhooks.Webhook(Buffer.from(SECRET).toString('base64'));
    expect((await post(current, 'msg_3')).status).toBe(202);
    expect((await post(legacy, 'msg_4')).status).toBe(202);
    expect((await post(legacy, 'msg_5', BODY.replace('17', '18'))).status).toBe(403);
    await app.webhooks.rotate(id, { secret: 'another', overlap_seconds: 60 });
    expect((await post(current, 'msg_6')).status).toBe(202);
    expect((await post(legacy, 'msg_7')).status).toBe(202);
    expect((await post(new standardWebhooks.Webhook(Buffer.from('another').toString('base64')), 'msg_8')).status).toBe(
      202,
    );
    await until(async () => {
      const uses = (await readSecretUses(app.database, id)).map((secret) => secret.uses);
      return uses[0] === 1 && uses[1] === 4;
    });
  });

  test('of twilio, a form, verifies at its URL, and not with one byte changed', () => {
    const { definition } = presetNamed('twilio')!;
    const keys = [keyOf(definition, Buffer.from(SECRET))];
    const fields = { From: '+15551234567', Body: 'größe & 水', NumMedia: '0' };
    const body = new URLSearchParams(fields).toString();
    const signedFor = (url: string) => ({
      'x-twilio-signature': twilio.getExpectedTwilioSignature(SECRET, url, fields),
    });
    const signed = { headers: signedFor(URL_OF_HOOK), body: Buffer.from(body) };
    expect(verifies(definition, keys, signed)).toBe(true);
    expect(verifies(definition, keys, { ...signed, url: `${URL_OF_HOOK}?a=1` })).toBe(false);
    expect(changedRequests(signed).filter((request) => verifies(definition, keys, request))).toEqual([]);
  });
});
