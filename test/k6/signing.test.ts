import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { payloadOf } from '../../k6/lib/payloads.ts';
import { type Hmac, requestHeaders, signatureOf } from '../../k6/lib/signing.ts';

const hmac: Hmac = (algorithm, secret, data, encoding) => createHmac(algorithm, secret).update(data).digest(encoding);

describe('the signature of a k6 script', () => {
  test.each([
    ['nothing', ''],
    ['one byte', '0'],
    ['JSON', '{"a":1}'],
    ['JSON with line ends', '{\r\n"a": 1\n}\n'],
    ['more than ASCII', '{"größe":"水 🌊"}'],
    ['a kibibyte', payloadOf(1024, 1)],
    ['a mebibyte', payloadOf(1_048_576, 1)],
  ])('of %s is sha256= and the HMAC-SHA256 of its UTF-8 bytes', (_name, body) => {
    const digest = createHmac('sha256', 'hüsh').update(Buffer.from(body, 'utf8')).digest('hex');
    expect(signatureOf(body, 'hüsh', hmac)).toBe(`sha256=${digest}`);
  });

  test('matches a published example', () => {
    // GitHub, «Validating webhook deliveries»: testing the webhook payload validation.
    expect(signatureOf('Hello, World!', "It's a Secret to Everybody", hmac)).toBe(
      'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
    );
  });
});

test('an unsigned request has no signature header', () => {
  expect(requestHeaders(null)).toEqual({ 'Content-Type': 'application/json' });
  expect(requestHeaders('sha256=00')).toEqual({
    'Content-Type': 'application/json',
    'X-Hub-Signature-256': 'sha256=00',
  });
});
