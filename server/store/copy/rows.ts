/** Postgres's binary COPY format for rows of `events`. @see https://www.postgresql.org/docs/current/sql-copy.html */

/** A row to be stored; `id` and `webhookId` are the 16 bytes of their UUIDs. */
export interface EventRow {
  id: Uint8Array;
  webhookId: Uint8Array;
  receivedAtMs: number;
  /** Binary inet, see `inetBytes`. */
  sourceIp: Uint8Array;
  /** Header field lines in UTF-8. */
  headers: Uint8Array;
  contentType: string | null;
  /** At most 200 characters. */
  eventType: string | null;
  body: Uint8Array;
  /** Keys by which deliveries are ordered, see model/order-by.ts; null: none. */
  orderKeys: readonly bigint[] | null;
  /** Deduplication key of 32 bytes (see dedupeKey in receive/ingest/store.ts); null: the event is stored in any case. Not a column. */
  key: Uint8Array | null;
  /** Id of the request, for the log only; not stored. */
  requestId?: string;
}

export const copyEventsSql = copyInto('events');

/** The COPY statement for rows of events. @param table name of `events` on the server */
export function copyInto(table: string): string {
  return `copy ${table} (id, webhook_id, received_at, source_ip, headers, content_type, event_type, body, bytes, order_keys) from stdin (format binary)`;
}

const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const COLUMNS = 10;
/** Column count and ten lengths, both UUIDs, timestamp and the int4 of `bytes`. */
const FIXED_ROW_BYTES = 2 + COLUMNS * 4 + 16 + 16 + 8 + 4;
const TRAILER_BYTES = 2;
/** A buffer that a large body grew beyond this size is not reused. */
const KEPT_BYTES_MAX = 8_388_608;
/** Postgres timestamps count microseconds from 2000-01-01. */
const POSTGRES_EPOCH_MS = 946_684_800_000;

/** Upper bound on the encoded size of a row in bytes. */
export function rowBytesMax(row: EventRow): number {
  // A UTF-16 unit takes at most three bytes of UTF-8.
  const textBytes = ((row.contentType?.length ?? 0) + (row.eventType?.length ?? 0)) * 3;
  const keysBytes = row.orderKeys === null ? 0 : ARRAY_HEAD_BYTES + row.orderKeys.length * ARRAY_ITEM_BYTES;
  return FIXED_ROW_BYTES + row.sourceIp.length + row.headers.length + row.body.length + textBytes + keysBytes;
}

/** Encodes rows into one reused buffer that grows as needed; the result is valid until the next call. */
export class CopyEncoder {
  #buffer = Buffer.allocUnsafe(65_536);

  encode(rows: readonly EventRow[]): Buffer {
    let neededBytes = SIGNATURE.length + TRAILER_BYTES;
    for (const row of rows) neededBytes += rowBytesMax(row);
    this.#fit(neededBytes);
    const buffer = this.#buffer;
    let at = SIGNATURE.copy(buffer, 0);
    for (const row of rows) at = writeRow(buffer, at, row);
    return buffer.subarray(0, buffer.writeInt16BE(-1, at));
  }

  #fit(neededBytes: number): void {
    const size = this.#buffer.length;
    if (size >= neededBytes && (size <= KEPT_BYTES_MAX || neededBytes > KEPT_BYTES_MAX)) return;
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(65_536, 2 ** Math.ceil(Math.log2(neededBytes))));
  }
}

/** Returns COPY data of rows that are already encoded. */
export function copyData(rows: Uint8Array): Buffer {
  const data = Buffer.allocUnsafe(SIGNATURE.length + rows.length + TRAILER_BYTES);
  SIGNATURE.copy(data);
  data.set(rows, SIGNATURE.length);
  data.writeInt16BE(-1, data.length - TRAILER_BYTES);
  return data;
}

/** Writes the row as one tuple of the COPY format at `start`. Returns the position after it. */
export function writeRow(buffer: Buffer, start: number, row: EventRow): number {
  let at = buffer.writeInt16BE(COLUMNS, start);
  at = writeBytes(buffer, at, row.id);
  at = writeBytes(buffer, at, row.webhookId);
  at = buffer.writeInt32BE(8, at);
  at = writeTimestamp(buffer, at, row.receivedAtMs);
  at = writeBytes(buffer, at, row.sourceIp);
  at = writeBytes(buffer, at, row.headers);
  at = writeText(buffer, at, row.contentType);
  at = writeText(buffer, at, row.eventType);
  const { body } = row;
  at = buffer.writeInt32BE(body.length, at);
  // Bodies are in shared memory, which `set` copies byte by byte (see memory.ts): 0.30 us for 1 KiB, `fill` 0.10.
  buffer.fill(body, at, at + body.length);
  at = buffer.writeInt32BE(4, at + body.length);
  at = buffer.writeInt32BE(body.length, at);
  return row.orderKeys === null ? buffer.writeInt32BE(-1, at) : writeBigints(buffer, at, row.orderKeys);
}

const INT8_OID = 20;
/** Dimensions, flag for nulls, type, length, first index. */
const ARRAY_HEAD_BYTES = 20;
const ARRAY_ITEM_BYTES = 4 + 8;

function writeBigints(buffer: Buffer, start: number, items: readonly bigint[]): number {
  let at = buffer.writeInt32BE(ARRAY_HEAD_BYTES + items.length * ARRAY_ITEM_BYTES, start);
  for (const word of [1, 0, INT8_OID, items.length, 1]) at = buffer.writeInt32BE(word, at);
  for (const item of items) at = buffer.writeBigInt64BE(item, buffer.writeInt32BE(8, at));
  return at;
}

/** A call of `set` costs as much as 16 bytes one by one. */
const SHORT_BYTES = 16;

function writeBytes(buffer: Buffer, start: number, bytes: Uint8Array): number {
  const at = buffer.writeInt32BE(bytes.length, start);
  if (bytes.length > SHORT_BYTES) buffer.set(bytes, at);
  else for (let i = 0; i < bytes.length; i++) buffer[at + i] = bytes[i]!;
  return at + bytes.length;
}

function writeText(buffer: Buffer, start: number, text: string | null): number {
  if (text === null) return buffer.writeInt32BE(-1, start);
  const length = buffer.write(text, start + 4, 'utf8');
  buffer.writeInt32BE(length, start);
  return start + 4 + length;
}

/** Unix milliseconds of a Postgres timestamp in binary form. */
export function timestampMs(micros: bigint): number {
  return Number(micros / 1000n) + POSTGRES_EPOCH_MS;
}

/** Writes microseconds as int64 without a BigInt: the product stays below 2^53 for the next 285 years. */
function writeTimestamp(buffer: Buffer, start: number, ms: number): number {
  const micros = (ms - POSTGRES_EPOCH_MS) * 1000;
  const high = Math.floor(micros / 2 ** 32);
  buffer.writeInt32BE(high, start);
  // Not the remainder, which is negative when the clock is set before 2000.
  return buffer.writeUInt32BE(micros - high * 2 ** 32, start + 4);
}
