import { createHmac } from 'node:crypto';
import twilio from 'twilio/lib/webhooks/webhooks.js';
import { describe, expect, test } from 'vitest';
import { presetNamed, presets } from '../../../server/model/signatures/presets.ts';
import { URLS_MAX, urlCandidates } from '../../../server/model/signatures/urls.ts';
import { startTestApp } from '../../helpers/app.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const SECRET = 'a secret';
const FIELDS = { From: '+15551234567', Body: 'größe & 水' };
const FORM = new URLSearchParams(FIELDS).toString();
const QUERY = '?a=%27b%27%20c+d&u=http%3A%2F%2Fx%3F';
const DECODED = "?a='b'%20c+d&u=http://x?";

const base64 = (algorithm: string, text: string) => createHmac(algorithm, SECRET).update(text).digest('base64');
/** The headers with which a sender signs a URL. */
const senders: Record<string, { body: string; sign: (url: string) => Record<string, string> }> = {
  twilio: {
    body: FORM,
    sign: (url) => ({ 'x-twilio-signature': twilio.getExpectedTwilioSignature(SECRET, url, FIELDS) }),
  },
  mandrill: {
    body: FORM,
    sign: (url) => ({ 'x-mandrill-signature': twilio.getExpectedTwilioSignature(SECRET, url, FIELDS) }),
  },
  square: { body: '{}', sign: (url) => ({ 'x-square-hmacsha256-signature': base64('sha256', `${url}{}`) }) },
  trello: { body: '{}', sign: (url) => ({ 'x-trello-webhook': base64('sha1', `{}${url}`) }) },
  hubspot: {
    body: '{}',
    sign: (url) => {
      const time = String(Date.now());
      const signature = base64('sha256', `POST${url}{}${time}`);
      return { 'x-hubspot-signature-v3': signature, 'x-hubspot-request-timestamp': time };
    },
  },
};

describe.each([
  ['https://weir.example.org', ''],
  ['http://weir.example.org', ''],
  ['https://weir.example.org:8443', ':8443'],
])('where FRONTEND_PUBLIC_API_URL is %s', (publicUrl, port) => {
  const app = shared(() => startTestApp({ FRONTEND_PUBLIC_API_URL: publicUrl }));

  const accepted = [`https://weir.example.org${port}`, 'https://weir.example.org', 'https://weir.example.org:443'];
  test.each(Object.keys(senders))('%s may sign its forms, and no other host or path', async (scheme) => {
    const { path } = await app.addWebhook({ secret: SECRET, signature_scheme: scheme, rate_limit_max: 1_000 });
    const { body, sign } = senders[scheme]!;
    const stored = presetNamed(scheme)!.definition.answer?.status ?? 202;
    const post = async (url: string, sent = body) => {
      const form = body === FORM ? 'application/x-www-form-urlencoded' : 'application/json';
      const headers = { 'content-type': form, ...sign(url) };
      return (await fetch(`${app.url}${path}${QUERY}`, { method: 'POST', headers, body: sent })).status;
    };
    for (const origin of [...accepted, 'http://weir.example.org'])
      expect([origin, await post(`${origin}${path}${QUERY}`)]).toEqual([origin, stored]);
    expect(await post(`${accepted[0]}${path}${DECODED}`)).toBe(scheme === 'hubspot' ? stored : 403);
    expect(await post(`${accepted[0]}${path}${QUERY}`, `${body} `)).toBe(403);
    expect(await post(`${accepted[0]}${path}`)).toBe(403);
    expect(await post(`https://other.example.org${path}${QUERY}`)).toBe(403);
    expect(await post(`https://weir.example.org:8444${path}${QUERY}`)).toBe(403);
    expect(await post(`${accepted[0]}/in/other${QUERY}`)).toBe(403);
  });
});

test('a request whose URL is as configured is verified once, any other at most twice', async () => {
  const app = await ofTest(startTestApp({ FRONTEND_PUBLIC_API_URL: 'https://weir.example.org' }));
  const { path } = await app.addWebhook({ secret: SECRET, signature_scheme: 'twilio' });
  const verified = async (url: string) => {
    const before = await app.metric('weir_verify_batch_requests');
    const headers = { 'content-type': 'application/x-www-form-urlencoded', ...senders.twilio!.sign(url) };
    await fetch(`${app.url}${path}`, { method: 'POST', headers, body: FORM });
    return (await app.metric('weir_verify_batch_requests')) - before;
  };
  // The sum over the buckets of the histogram.
  const one = await verified(`https://weir.example.org${path}`);
  expect(one).toBeGreaterThan(0);
  expect(await verified(`https://weir.example.org:443${path}`)).toBe(2 * one);
  expect(await verified('https://other.example.org')).toBe(2 * one);
});

describe('the URLs that are tried', () => {
  const url = (origin: string) => `${origin}/in/a${QUERY}`;

  test('begin with the configured one, and are few', () => {
    for (const origin of ['https://h', 'http://h:8080', 'https://[::1]:443', 'https://h/behind/a/proxy'])
      for (const query of [undefined, 'decoded', 'escaped'] as const) {
        const urls = urlCandidates(url(origin), query);
        expect(urls[0]).toBe(url(origin));
        expect(urls.length).toBeLessThanOrEqual(URLS_MAX);
        expect(new Set(urls).size).toBe(urls.length);
      }
    expect(urlCandidates('https://[::1]:443/in/a', undefined)).toContain('https://[::1]/in/a');
    expect(urlCandidates('https://h:8443/in/a', 'escaped')).toEqual([
      'https://h:8443/in/a',
      'https://h/in/a',
      'https://h:443/in/a',
      'http://h/in/a',
      'http://h:80/in/a',
    ]);
  });

  test('include those that the library of Twilio accepts', () => {
    const sent = "https://h/in/a?a='b%27%20c+d&u=http%3A%2F%2Fx%3F";
    const queries = [sent.slice(sent.indexOf('?')), "?a='b'%20c%20d&u=http%3A%2F%2Fx%3F", QUERY];
    for (const signed of ['https://h/in/a', 'https://h:443/in/a'].flatMap((at) => queries.map((query) => at + query))) {
      const signature = twilio.getExpectedTwilioSignature(SECRET, signed, FIELDS);
      expect([signed, twilio.validateRequest(SECRET, signature, sent, FIELDS)]).toEqual([signed, true]);
      expect(urlCandidates(sent, 'escaped')).toContain(signed);
    }
  });

  test('are of every preset that signs the URL', () => {
    const signing = presets.filter(({ definition }) => definition.content?.includes('{url}'));
    expect(signing.map(({ name }) => name).sort()).toEqual(Object.keys(senders).sort());
  });
});
