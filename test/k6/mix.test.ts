import { expect, test } from 'vitest';
import { drawOf, readWebhooks } from '../../k6/lib/mix.ts';

const plain = { url: 'http://w/in/1', secret: 's', scheme: { definition: { algorithm: 'hmac-sha256' } } };
const timed = {
  ...plain,
  url: 'http://w/in/2',
  scheme: { algorithm: 'hmac-sha256', timestamp: { from: 'header:x-time' } },
  dedupe_header: 'X-Id',
};
const file = [plain, timed].map((one) => JSON.stringify(one)).join('\n');

test('webhooks are read from lines of JSON, and an invalid line is named', () => {
  expect(readWebhooks(`${file}\n\n`)).toEqual([
    { url: plain.url, secret: 's', scheme: { algorithm: 'hmac-sha256' }, dedupeHeader: null },
    { url: timed.url, secret: 's', scheme: timed.scheme, dedupeHeader: 'X-Id' },
  ]);
  expect(() => readWebhooks('')).toThrow('WEBHOOKS is empty');
  for (const wrong of ['oops', '{}', JSON.stringify({ ...plain, secret: null })])
    expect(() => readWebhooks(`${JSON.stringify(plain)}\n${wrong}`)).toThrow('Line 2 of WEBHOOKS is not a webhook');
  expect(() => readWebhooks(JSON.stringify({ ...plain, scheme: 'stripe' }))).toThrow(
    'Line 1 of WEBHOOKS is not a signature',
  );
});

test('of 20 requests, four are of other kinds than events, and only where the webhook supports them', () => {
  const webhooks = readWebhooks(file);
  const draws = Array.from({ length: 400 }, (_, i) => drawOf(i, webhooks, [10, 20, 30]));
  const of = (kind: string) => draws.filter((draw) => draw.kind === kind);
  for (const kind of ['batch', 'duplicate', 'wrong_secret', 'unknown_webhook']) expect(of(kind)).toHaveLength(20);
  expect(of('event')).toHaveLength(320);
  expect(new Set(of('batch').map(({ webhook }) => webhook.url))).toEqual(new Set([plain.url]));
  expect(new Set(of('duplicate').map(({ webhook }) => webhook.url))).toEqual(new Set([timed.url]));
  const alone = Array.from({ length: 20 }, (_, i) => drawOf(i, webhooks.slice(0, 1), [10]).kind);
  expect(alone.filter((kind) => kind === 'event')).toHaveLength(17);
});

test('each webhook gets events of each size', () => {
  const webhooks = [1, 2, 3, 4].map((n) => ({ ...readWebhooks(file)[0]!, url: `http://w/in/${n}` }));
  const events = Array.from({ length: 400 }, (_, i) => drawOf(i, webhooks, [1, 2, 3, 4])).filter(
    ({ kind }) => kind === 'event',
  );
  expect(new Set(events.map(({ webhook, bytes }) => `${webhook.url} ${bytes}`)).size).toBe(16);
});
