import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HeaderLines, printable, storedHeaders } from '../../../server/model/signatures/stored-headers.ts';

describe('the stored headers', () => {
  test('keep order, repetition and values', () => {
    expect(storedHeaders(['x-b', '2', 'x-a', '1', 'x-b', 'three  words'], [])).toBe(
      'x-b: 2\nx-a: 1\nx-b: three  words',
    );
  });

  test.each(['token', 'x-token-count', 'key', 'x-tokens', 'x-secretary', 'x-hub-signature', 'set-cookie', 'x-apikey'])(
    'keep %s',
    (name) => {
      expect(storedHeaders([name, 'seen'], [])).toBe(`${name}: seen`);
    },
  );

  test('are empty when there is nothing to store', () => {
    expect(storedHeaders([], [])).toBe('');
    expect(text(new HeaderLines().encode([], [], 'id'))).toBe('x-request-id: id');
    expect(text(new HeaderLines().encode(['a', 'b'], [], 'id'))).toBe('x-request-id: id\na: b');
    expect(storedHeaders(['cookie', 'hush'], [])).toBe('');
  });

  test('have as many lines as fields, for any values', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' })), (values) => {
        const lines = storedHeaders(
          values.flatMap((value) => ['x-field', value]),
          [],
        );
        expect(lines === '' ? 0 : lines.split('\n').length).toBe(values.length);
        expect(lines).not.toContain('\0');
      }),
    );
  });

  test('hold each printable value in UTF-8', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        const lines = new HeaderLines().encode(['x-field', value], []);
        expect(text(lines)).toBe(Buffer.from(`x-field: ${printable(value)}`).toString());
      }),
    );
  });

  test('of a request stay as they are when those of others are encoded, larger ones too', () => {
    const encoder = new HeaderLines();
    const values = Array.from({ length: 300 }, (_, i) => `${i}-é`.repeat(i === 150 ? 50_000 : i + 1));
    const encoded = values.map((value) => encoder.encode(['x-field', value], []));
    for (const [i, value] of values.entries()) expect(text(encoded[i]!) === `x-field: ${value}`).toBe(true);
  });
});

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString();
}

test('a printable value keeps tabs and characters beyond ASCII, and loses control characters', () => {
  expect(printable('a\tb\0c\r\nd\x7fé\u2028')).toBe('a\tb c  d é\u2028');
});
