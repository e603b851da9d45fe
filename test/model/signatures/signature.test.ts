import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseDigest } from '../../../server/model/signatures/signature.ts';

const A = 'a'.repeat(64);
const digestOf = (byte: number) => new Uint8Array(32).fill(byte);

describe('a digest', () => {
  test.each([`sha256=${A}`, `sha256=${A.toUpperCase()}`, `sha256=${'aA'.repeat(32)}`])('%s is accepted', (value) => {
    expect(parseDigest(value)).toEqual(digestOf(0xaa));
  });

  test.each([
    ['empty', ''],
    ['without its prefix', A],
    ['with the prefix alone', 'sha256='],
    ['with the prefix in capitals', `SHA256=${A}`],
    ['with another prefix', `sha512=${A}`],
    ['of 63 digits', `sha256=${A.slice(1)}`],
    ['of 65 digits', `sha256=${A}a`],
    ['with a last character that is not a digit', `sha256=${A.slice(1)}g`],
    ['with a first character that is not a digit', `sha256=g${A.slice(1)}`],
    ['with a blank in front', ` sha256=${A}`],
    ['with a blank behind', `sha256=${A} `],
    ['with a blank inside', `sha256= ${A.slice(1)}`],
    ['with a full-width digit', `sha256=${A.slice(1)}\uff11`],
    ['with a NUL behind', `sha256=${A}\0`],
    ['in base64', `sha256=${Buffer.alloc(32, 0xaa).toString('base64')}`],
    ['twice in a list', `sha256=${A},sha256=${A}`],
  ])('%s is refused', (_how, value) => {
    expect(parseDigest(value)).toBeNull();
  });

  test('is parsed only from 64 hex digits after the prefix, for any input', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 60, maxLength: 70, unit: fc.constantFrom(...'0aAfFg =\0é') }), (text) => {
        expect(parseDigest(`sha256=${text}`) !== null).toBe(/^[0-9a-fA-F]{64}$/.test(text));
      }),
    );
  });
});
