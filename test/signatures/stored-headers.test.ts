import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { printable, storedHeaders } from '../../server/signatures/stored-headers.ts';

describe('the stored headers', () => {
  test('keep order, repetition and values', () => {
    expect(storedHeaders(['x-b', '2', 'x-a', '1', 'x-b', 'three  words'], [])).toBe(
      'x-b: 2\nx-a: 1\nx-b: three  words',
    );
  });

  test.each([
    'authorization',
    'proxy-authorization',
    'cookie',
    'x-hub-signature-256',
    'x-webhook-signature',
    'x-own-signature',
    'x-gitlab-token',
    'x-client-secret',
    'x-api-key',
    'a-key',
  ])('leave out %s', (name) => {
    expect(storedHeaders(['accept', '*/*', name, 'hush', 'host', 'x'], ['x-own-signature'])).toBe(
      'accept: */*\nhost: x',
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
    expect(storedHeaders([], [], 'id')).toBe('x-request-id: id');
    expect(storedHeaders(['a', 'b'], [], 'id')).toBe('x-request-id: id\na: b');
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
});

test('a printable value keeps tabs and characters beyond ASCII, and loses control characters', () => {
  expect(printable('a\tb\0c\r\nd\x7fé\u2028')).toBe('a\tb c  d é\u2028');
});
