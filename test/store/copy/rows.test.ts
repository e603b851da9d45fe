import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CopyEncoder, type EventRow, rowBytesMax } from '../../../server/store/copy/rows.ts';

/** Reads the binary format by its description in the manual of Postgres, independent of the encoder. */
function decode(data: Buffer): (Buffer | null)[][] {
  expect(data.subarray(0, 19).toString('latin1')).toBe('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0');
  const rows: (Buffer | null)[][] = [];
  let at = 19;
  for (;;) {
    const columns = data.readInt16BE(at);
    at += 2;
    if (columns === -1) break;
    const row: (Buffer | null)[] = [];
    for (let column = 0; column < columns; column++) {
      const length = data.readInt32BE(at);
      at += 4;
      row.push(length === -1 ? null : Buffer.from(data.subarray(at, at + length)));
      at += Math.max(0, length);
    }
    rows.push(row);
  }
  expect(at).toBe(data.length);
  return rows;
}

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
const anyRow: fc.Arbitrary<EventRow> = fc.record({
  id: bytes(16),
  webhookId: bytes(16),
  receivedAtMs: fc.integer({ min: 0, max: Date.UTC(2200, 0) }),
  sourceIp: fc.oneof(bytes(8), bytes(20)),
  headers: fc.uint8Array({ maxLength: 300 }),
  contentType: fc.option(fc.string()),
  eventType: fc.option(fc.string()),
  body: fc.uint8Array({ maxLength: 300 }),
  orderKeys: fc.option(fc.array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { minLength: 1, maxLength: 8 })),
  key: fc.constant(null),
});

/** The columns of copyEventsSql. */
function expected(row: EventRow): (Buffer | null)[] {
  const receivedAt = Buffer.alloc(8);
  receivedAt.writeBigInt64BE((BigInt(row.receivedAtMs) - BigInt(Date.UTC(2000, 0))) * 1000n);
  const length = Buffer.alloc(4);
  length.writeInt32BE(row.body.length);
  return [
    Buffer.from(row.id),
    Buffer.from(row.webhookId),
    receivedAt,
    Buffer.from(row.sourceIp),
    Buffer.from(row.headers),
    row.contentType === null ? null : Buffer.from(row.contentType),
    row.eventType === null ? null : Buffer.from(row.eventType),
    Buffer.from(row.body),
    length,
    row.orderKeys === null ? null : bigints(row.orderKeys),
  ];
}

/** A bigint[] as array_recv of Postgres reads it: dimensions, flag, type, length, lower bound; then each item with its length. */
function bigints(items: readonly bigint[]): Buffer {
  const words = [
    1,
    0,
    20,
    items.length,
    1,
    ...items.flatMap((item) => [8, Number(item >> 32n), Number(BigInt.asIntN(32, item))]),
  ];
  const bytes = Buffer.alloc(words.length * 4);
  for (const [place, word] of words.entries()) bytes.writeInt32BE(word, place * 4);
  return bytes;
}

describe('rows for COPY', () => {
  test('contain the given values, with one encoder for all batches', () => {
    const encoder = new CopyEncoder();
    fc.assert(
      fc.property(fc.array(anyRow, { maxLength: 20 }), (rows) => {
        expect(decode(encoder.encode(rows))).toEqual(rows.map(expected));
      }),
    );
  });

  test('fit into their upper bound', () => {
    const encoder = new CopyEncoder();
    const empty = encoder.encode([]).length;
    fc.assert(
      fc.property(anyRow, (row) => {
        expect(encoder.encode([row]).length - empty).toBeLessThanOrEqual(rowBytesMax(row));
      }),
    );
  });

  test.each([
    ['before the epoch of Postgres', Date.UTC(1999, 11, 31, 23, 59, 59, 999)],
    ['at the epoch of Postgres', Date.UTC(2000, 0)],
    ['one millisecond after it', Date.UTC(2000, 0) + 1],
    ['of today', Date.UTC(2026, 10, 21, 9, 40, 0, 731)],
    ['in two hundred years', Date.UTC(2226, 0)],
  ])('contain a time %s', (_when, receivedAtMs) => {
    const row = { ...fc.sample(anyRow, 1)[0]!, receivedAtMs };
    expect(decode(new CopyEncoder().encode([row]))[0]![2]).toEqual(expected(row)[2]);
  });

  test('contain a body larger than the reused buffer, and small ones after it', () => {
    const encoder = new CopyEncoder();
    const [small, other] = fc.sample(anyRow, 2) as [EventRow, EventRow];
    const large = { ...other, body: new Uint8Array(9_000_000).fill(7) };
    const decoded = decode(encoder.encode([small, large]));
    // Compared natively: nine million bytes are too many for toEqual.
    expect(decoded[1]![7]!.equals(large.body)).toBe(true);
    decoded[1]![7] = null;
    expect(decoded).toEqual([expected(small), expected(large).with(7, null)]);
    expect(decode(encoder.encode([small]))).toEqual([expected(small)]);
  });
});
