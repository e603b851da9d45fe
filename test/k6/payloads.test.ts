import { deflateRawSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { payloadOf } from '../../k6/lib/payloads.ts';

test.each([1, 2, 38, 39, 40, 41, 42, 43, 64, 1024, 16_384, 1_048_576, 1_048_577])(
  '%i bytes have exactly that size, and are JSON',
  (bytes) => {
    const body = payloadOf(bytes, 7);
    expect(Buffer.byteLength(body)).toBe(bytes);
    expect(() => JSON.parse(body)).not.toThrow();
  },
);

test('the same size and seed give the same bytes, another seed gives others', () => {
  expect(payloadOf(1024, 7)).toBe(payloadOf(1024, 7));
  expect(payloadOf(1024, 8)).not.toBe(payloadOf(1024, 7));
  expect(payloadOf(1024, 123_456)).toHaveLength(1024);
});

test('it is hardly compressible: six random bits a letter keep three quarters of its size', () => {
  const body = payloadOf(65_536, 7);
  expect(deflateRawSync(body, { level: 9 }).length / body.length).toBeGreaterThan(0.74);
});

test.each([0, -1, 1.5, Number.NaN])('%d bytes are refused', (bytes) => {
  expect(() => payloadOf(bytes, 1)).toThrow('the minimum is 1');
});
