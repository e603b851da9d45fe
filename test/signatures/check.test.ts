/** The HMAC in one call is that of node:crypto, for each length around its limits. */
import { createHmac, randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { hmac } from '../../server/signatures/check.ts';

const KEY_BYTES = [1, 24, 63, 64, 65, 127, 128, 129];
/** One-shot up to 4,096 bytes, of which each UTF-16 unit around the body counts three. */
const BODY_BYTES = [0, 1, 1_024, 4_096 - 3 * 14, 4_096 - 3 * 14 + 1, 4_096, 4_097, 100_000];
const texts = [
  { prefix: '', suffix: '' },
  { prefix: 'v0:1234567890:', suffix: '' },
  { prefix: 'é€:', suffix: '.\u{1F600}nd' },
];

describe.each(['sha1', 'sha256', 'sha512'] as const)('%s', (name) => {
  test.each(KEY_BYTES)('with a key of %i bytes', (keyBytes) => {
    const key = randomBytes(keyBytes);
    for (const bodyBytes of BODY_BYTES)
      for (const { prefix, suffix } of texts) {
        const body = new Uint8Array(new SharedArrayBuffer(bodyBytes));
        body.set(randomBytes(bodyBytes));
        const expected = createHmac(name, key).update(prefix).update(body).update(suffix).digest('hex');
        expect(hmac(name, key, { prefix, body, suffix }).toString('hex')).toBe(expected);
      }
  });
});
