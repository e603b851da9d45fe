/**
 * Segment files of the spool: how they are written. read-segment.ts reads them.
 *
 *     file    = magic, length of the column list (u16), column list (ASCII), key, checksum, frames
 *     frame   = magic, key, sizes, complement of the sizes, checksum, payload
 *     sizes   = payload bytes (u32), events (u32)
 *     payload = rows in Postgres's binary COPY format, each with its deduplication key (or null) as the last field
 *
 * One flush makes one frame durable: the events of one group commit. Numbers are big-endian; a checksum is the first 8 bytes of a
 * SHA-256 (CRC-32 needs a later Node.js than the oldest supported one). The rows are in the form that the database reads, and the
 * column list is in the file, so a segment that was written before an upgrade can be stored after it.
 *
 * The key is random for each file, is the beginning of what the checksum covers, and never leaves the machine: a sender cannot put a
 * frame into a body. It is not derived from SECRETS_KEY, so that another installation can drain the spool of a lost machine.
 */
import { createHash, randomBytes } from 'node:crypto';
import { copyEventsSql, type EventRow, rowBytesMax, timestampMs, writeRow } from '../../store/copy/rows.ts';
import { uuidText } from '../../store/ids.ts';

export interface Frame {
  events: number;
  payload: Buffer;
}

export const FILE_MAGIC = Buffer.from('WEIRSPL2', 'latin1');
/** Bytes that are rare in text and images. */
export const FRAME_MAGIC = Buffer.from('a7e0d4139bf25c86', 'hex');
export const KEY_BYTES = 16;
export const CHECKSUM_BYTES = 8;
/** Payload bytes and events. */
const SIZES_BYTES = 8;
const KEY_FIELD_BYTES_MAX = 4 + 32;

/** The first bytes of each frame in a file with this key. Default: a new random key, for a new file. */
export function frameMark(key: Uint8Array = randomBytes(KEY_BYTES)): Buffer {
  return Buffer.concat([FRAME_MAGIC, key]);
}

/** Bytes of a frame before its payload. */
export const FRAME_OVERHEAD_BYTES = FRAME_MAGIC.length + KEY_BYTES + 2 * SIZES_BYTES + CHECKSUM_BYTES;

/** The columns of the rows that this release writes, without `key`. */
export const columns = /\((.*?)\)/.exec(copyEventsSql)![1]!.split(', ');

/** Returns the head of a segment. @param mark of its frames @param names columns of its rows */
export function encodeHead(mark: Buffer, names: readonly string[] = columns): Buffer {
  const list = Buffer.from(names.join(','), 'latin1');
  const length = Buffer.alloc(2);
  length.writeUInt16BE(list.length);
  const head = Buffer.concat([FILE_MAGIC, length, list, mark.subarray(FRAME_MAGIC.length)]);
  return Buffer.concat([head, checksum(head)]);
}

/** Encodes events as one frame with room for its head, which `sealFrame` writes when the file is known. */
export function encodeFrame(rows: readonly EventRow[]): Buffer {
  let bytesMax = FRAME_OVERHEAD_BYTES;
  for (const row of rows) bytesMax += rowBytesMax(row) + KEY_FIELD_BYTES_MAX;
  const frame = Buffer.allocUnsafe(bytesMax);
  let at = FRAME_OVERHEAD_BYTES;
  for (const row of rows) at = writeKeyedRow(frame, at, row);
  return frame.subarray(0, at);
}

function writeKeyedRow(frame: Buffer, start: number, row: EventRow): number {
  const end = writeRow(frame, start, row);
  frame.writeInt16BE(frame.readInt16BE(start) + 1, start);
  if (row.key === null) return frame.writeInt32BE(-1, end);
  const at = frame.writeInt32BE(row.key.length, end);
  frame.set(row.key, at);
  return at + row.key.length;
}

/** Writes the head of a frame for the file with this mark. A head for another file is overwritten. Returns the frame. */
export function sealFrame(frame: Buffer, events: number, mark: Buffer): Buffer {
  const bytes = frame.length - FRAME_OVERHEAD_BYTES;
  mark.copy(frame);
  let at = mark.length;
  for (const size of [bytes, events, ~bytes >>> 0, ~events >>> 0]) at = frame.writeUInt32BE(size, at);
  checksum(frame.subarray(0, at), frame.subarray(FRAME_OVERHEAD_BYTES)).copy(frame, at);
  return frame;
}

/** Returns a frame of rows that are already encoded. */
export function encodedFrame({ events, payload }: Frame, mark: Buffer): Buffer {
  return sealFrame(Buffer.concat([Buffer.alloc(FRAME_OVERHEAD_BYTES), payload]), events, mark);
}

/** Divides rows after the first `events` of them. */
export function splitRows({ events, payload }: Frame, first: number): [Frame, Frame] {
  let at = 0;
  for (let row = 0; row < first; row++) at = endOfRow(payload, at);
  return [
    { events: first, payload: payload.subarray(0, at) },
    { events: events - first, payload: payload.subarray(at) },
  ];
}

/** Returns when the rows were received, Unix milliseconds. */
export function receivedTimes(names: readonly string[], rows: Frame): number[] {
  return fieldsOf(rows, names.indexOf('received_at')).map((field) => timestampMs(field.readBigInt64BE(0)));
}

/** Returns the ids of the rows, 16 bytes each. */
export function eventIdsOf(names: readonly string[], rows: Frame): Buffer[] {
  return fieldsOf(rows, names.indexOf('id'));
}

/** A row with a deduplication key. */
export interface SpooledKey {
  event: string;
  webhook: string;
  /** In hex. */
  key: string;
  /** When it was received, ISO 8601. */
  at: string;
}

/** Returns the rows that have a key. */
export function keyedRows(names: readonly string[], rows: Frame): SpooledKey[] {
  const [events, webhooks] = [eventIdsOf(names, rows), fieldsOf(rows, names.indexOf('webhook_id'))];
  const times = receivedTimes(names, rows);
  return fieldsOf(rows, names.length).flatMap((key, row) =>
    key.length === 0
      ? []
      : {
          event: uuidText(events[row]!),
          webhook: uuidText(webhooks[row]!),
          key: key.toString('hex'),
          at: new Date(times[row]!).toISOString(),
        },
  );
}

/** The bytes of one field of each row; empty for null. */
function fieldsOf({ events, payload }: Frame, column: number): Buffer[] {
  const fields: Buffer[] = [];
  for (let row = 0, start = 0; row < events; row++, start = endOfRow(payload, start)) {
    let at = start + 2;
    for (let field = 0; field < column; field++) at += 4 + Math.max(0, payload.readInt32BE(at));
    fields.push(payload.subarray(at + 4, at + 4 + Math.max(0, payload.readInt32BE(at))));
  }
  return fields;
}

function endOfRow(payload: Buffer, start: number): number {
  let at = start + 2;
  for (let fields = payload.readInt16BE(start); fields > 0; fields--) at += 4 + Math.max(0, payload.readInt32BE(at));
  return at;
}

/** True if the payload is exactly this number of rows, each with this number of fields. */
export function areRows({ events, payload }: Frame, fields: number): boolean {
  let at = 0;
  for (let row = 0; row < events; row++) {
    if (at + 2 > payload.length || payload.readInt16BE(at) !== fields) return false;
    at += 2;
    for (let field = 0; field < fields; field++) {
      if (at + 4 > payload.length) return false;
      at += 4 + Math.max(0, payload.readInt32BE(at));
    }
  }
  return at === payload.length;
}

/** The first CHECKSUM_BYTES bytes of the SHA-256 of the parts together. */
export function checksum(...parts: Uint8Array[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest().subarray(0, CHECKSUM_BYTES);
}
