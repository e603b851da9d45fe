import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseDigest, presentedSignature } from '../../../server/model/signatures/signature.ts';

const A = 'a'.repeat(64);
const B = 'b'.repeat(64);
const digestOf = (byte: number) => new Uint8Array(32).fill(byte);
const good = (digit: string) => ({ kind: 'digests', digests: [digestOf(Number.parseInt(digit + digit, 16))] });

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

describe('the presented signature', () => {
  const [github, plain] = ['x-hub-signature-256', 'x-webhook-signature'];
  test.each([
    ['in the first default header', [github, `sha256=${A}`], null, good('a')],
    ['in the second default header', [plain, `sha256=${B}`], null, good('b')],
    ['in the second, the first being malformed', [github, 'nonsense', plain, `sha256=${B}`], null, good('b')],
    ['in the first, the second being malformed', [github, `sha256=${A}`, plain, ''], null, good('a')],
    ['in the configured header', ['x-own', `sha256=${A}`], 'x-own', good('a')],
    ['in the configured header beside a default', ['x-own', `sha256=${A}`, github, 'x'], 'x-own', good('a')],
    ['among other headers', ['accept', '*/*', github, `sha256=${A}`, 'host', 'x'], null, good('a')],
  ])('is found %s', (_where, headers, configured, expected) => {
    expect(presentedSignature(headers, configured)).toEqual(expected);
  });

  test('is both when both default headers have one', () => {
    expect(presentedSignature([github, `sha256=${A}`, plain, `sha256=${B}`], null)).toEqual({
      kind: 'digests',
      digests: [digestOf(0xaa), digestOf(0xbb)],
    });
  });

  test.each([
    ['missing without headers', [], null, { kind: 'missing' }],
    ['missing in a header of its own choice', ['x-signature', `sha256=${A}`], null, { kind: 'missing' }],
    ['missing when a default header stands for the configured', [github, `sha256=${A}`], 'x-own', { kind: 'missing' }],
    ['missing when its text is the value of another', ['x-other', github], null, { kind: 'missing' }],
    ['malformed', [github, A], null, { kind: 'malformed', header: github }],
    ['malformed when empty', [plain, ''], null, { kind: 'malformed', header: plain }],
    [
      'malformed when sent twice',
      [github, `sha256=${A}`, github, `sha256=${A}`],
      null,
      { kind: 'malformed', header: github },
    ],
    [
      'malformed when one was sent twice and the other is good',
      [plain, 'x', plain, 'y', github, `sha256=${A}`],
      null,
      { kind: 'malformed', header: plain },
    ],
  ])('is %s', (_how, headers, configured, expected) => {
    expect(presentedSignature(headers, configured)).toEqual(expected);
  });
});
