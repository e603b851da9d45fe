import { createDecipheriv, randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { deriveKey, seal, unseal } from '../../../server/store/secrets/seal.ts';

const key = randomBytes(32);
const other = randomBytes(32);
const plain = Buffer.from('a secret between friends');
const sealed = seal(plain, key, 'webhook 1');

describe('a sealed secret', () => {
  test.each([
    ['with its key', [key]],
    ['with its key as the previous one', [other, key]],
    ['with its key as the current of two', [key, other]],
  ])('opens with %s', (_how, keys) => {
    expect(unseal(sealed, keys, 'webhook 1')).toEqual(plain);
  });

  test('is AES-256-GCM: version, nonce, tag and ciphertext', () => {
    const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(1, 13)).setAAD(Buffer.from('webhook 1'));
    decipher.setAuthTag(sealed.subarray(13, 29));
    expect(Buffer.concat([decipher.update(sealed.subarray(29)), decipher.final()])).toEqual(plain);
  });

  test.each([
    ['with another key', [other], 'webhook 1'],
    ['with no key', [], 'webhook 1'],
    ['on another row', [key], 'webhook 2'],
    ['on no row', [key], ''],
  ])('does not open with %s', (_how, keys, context) => {
    expect(unseal(sealed, keys, context)).toBeNull();
  });

  test('does not open with any changed bit', () => {
    for (let at = 0; at < sealed.length; at++)
      for (let bit = 0; bit < 8; bit++) {
        const changed = Buffer.from(sealed);
        changed[at]! ^= 1 << bit;
        expect(unseal(changed, [key], 'webhook 1')).toBeNull();
      }
  });

  test('does not open when truncated or extended', () => {
    for (let bytes = 0; bytes < sealed.length; bytes++)
      expect(unseal(sealed.subarray(0, bytes), [key], 'webhook 1')).toBeNull();
    expect(unseal(Buffer.concat([sealed, Buffer.of(0)]), [key], 'webhook 1')).toBeNull();
  });

  test('differs each time', () => {
    expect(seal(plain, key, 'webhook 1')).not.toEqual(sealed);
  });

  test('can be empty', () => {
    expect(unseal(seal(Buffer.alloc(0), key, 'x'), [key], 'x')).toEqual(Buffer.alloc(0));
  });
});

describe('a derived key', () => {
  const secretsKey = Buffer.alloc(32, 7).toString('base64');

  test('is the same each time and has 32 bytes', () => {
    expect(deriveKey(secretsKey, 'webhook-secrets')).toEqual(deriveKey(secretsKey, 'webhook-secrets'));
    expect(deriveKey(secretsKey, 'webhook-secrets')).toHaveLength(32);
  });

  test('of one purpose opens nothing of another', () => {
    const sealed = seal(plain, deriveKey(secretsKey, 'webhook-secrets'), 'x');
    expect(unseal(sealed, [deriveKey(secretsKey, 'agent-sessions')], 'x')).toBeNull();
  });
});
