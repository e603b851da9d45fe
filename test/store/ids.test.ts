import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isoTime, isUuid, uuidBytes, uuidText, uuidv7, uuidv7Milliseconds } from '../../server/store/ids.ts';

const MS_MAX = 2 ** 48 - 1;
const anyMs = fc.integer({ min: 0, max: MS_MAX });
const random = fc.uint8Array({ minLength: 16, maxLength: 16 });

describe('an event id', () => {
  test('matches the example of RFC 9562, appendix A.6, but for the 12 bits after the version', () => {
    const bytes = uuidBytes('ffffffff-ffff-fcc3-d8c4-dc0c0c07398f');
    expect(uuidText(uuidv7(0x017f22e279b0, bytes))).toBe('017f22e2-79b0-7000-98c4-dc0c0c07398f');
  });

  test('contains its millisecond, version 7, 12 zero bits and the variant, for any random bytes', () => {
    fc.assert(
      fc.property(anyMs, random, (ms, bytes) => {
        const text = uuidText(uuidv7(ms, bytes));
        expect(uuidv7Milliseconds(text)).toBe(ms);
        expect(text).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7000-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      }),
    );
  });

  test('sorts after every id of an earlier millisecond, as text and as bytes', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: MS_MAX - 1 }), random, random, (ms, a, b) => {
        const [earlier, later] = [uuidv7(ms, a), uuidv7(ms + 1, b)];
        expect(uuidText(earlier) < uuidText(later)).toBe(true);
        expect(Buffer.compare(earlier, later)).toBe(-1);
      }),
    );
  });

  test('contains the random bits after the variant', () => {
    const bytes = randomBytes(16);
    const before = Buffer.from(bytes);
    uuidv7(0, bytes);
    expect(bytes[8]! & 0x3f).toBe(before[8]! & 0x3f);
    expect(bytes.subarray(9)).toEqual(before.subarray(9));
  });
});

describe('the text of a UUID', () => {
  test('converts to its bytes and back', () => {
    fc.assert(
      fc.property(random, (bytes) => {
        expect([...uuidBytes(uuidText(bytes))]).toEqual([...bytes]);
      }),
    );
    fc.assert(
      fc.property(fc.uuid(), (text) => {
        expect(uuidText(uuidBytes(text))).toBe(text);
      }),
    );
  });

  test.each(['2f1c0d7e-0000-4000-8000-000000000000', '2F1C0D7E-ABCD-4000-8000-000000000000'])('%s is valid', (text) => {
    expect(isUuid(text)).toBe(true);
  });

  test.each([
    '',
    '2f1c0d7e00004000800000000000000',
    '2f1c0d7e000040008000000000000000',
    '{2f1c0d7e-0000-4000-8000-000000000000}',
    '2f1c0d7e-0000-4000-8000-00000000000g',
    '2f1c0d7e-0000-4000-8000-0000000000000',
    '2f1c0d7e-0000-4000-8000-000000000000\n',
    ' 2f1c0d7e-0000-4000-8000-000000000000',
  ])('%j is invalid', (text) => {
    expect(isUuid(text)).toBe(false);
  });
});

test.each([0, 1_767_225_599_999, 1_767_225_600_000, 1_767_225_600_007, 1_767_225_600_070.9, 253_402_300_800_001, -1])(
  'the time %d ms is the text that Date makes of it',
  (ms) => {
    expect(isoTime(ms)).toBe(new Date(Math.floor(ms)).toISOString());
    expect(isoTime(ms)).toBe(new Date(Math.floor(ms)).toISOString());
  },
);
