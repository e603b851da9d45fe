/**
 * Segment files of the spool.
 *
 *     file    = magic, length of the column list (u16), column list (ASCII), checksum, frames
 *     frame   = magic, payload bytes (u32), events (u32), checksum, payload
 *     payload = rows in Postgres's binary COPY format, each with its deduplication key (or null) as the last field
 *
 * One flush makes one frame durable: the events of one group commit. Numbers are big-endian; a checksum is the first 8 bytes of a
 * SHA-256 (CRC-32 needs a later Node.js than the oldest supported one). The rows are in the form that the database reads, and the
 * column list is in the file, so a segment that was written before an upgrade can be stored after it.
 *
 * A crash can leave an incomplete frame at the end of a file. Its events were not answered, and nothing was written after it. A bad frame
 * with a good one behind it is damage to the disk or to the file.
 */
import { createHash } from 'node:crypto';
import { copyEventsSql, type EventRow, rowBytesMax, timestampMs, writeRow } from '../db/copy-rows.ts';
import type { DiskFile } from './disk.ts';

export interface Frame {
  events: number;
  payload: Buffer;
}

/** What is at a place of a segment: `torn`, an incomplete frame at the end; `damaged`, the place of the next good frame. */
type Read =
  | { kind: 'frame'; frame: Frame; next: number }
  | { kind: 'end' }
  | { kind: 'torn' }
  | { kind: 'damaged'; next: number };

const FILE_MAGIC = Buffer.from('WEIRSPL1', 'latin1');
/** Bytes that are rare in text and images, so that a search for the next good frame rarely stops at a body. */
const FRAME_MAGIC = Buffer.from('f5c3a1e90d57b286', 'hex');
const CHECKSUM_BYTES = 8;
const FRAME_HEAD_BYTES = FRAME_MAGIC.length + 8;
const FRAME_OVERHEAD_BYTES = FRAME_HEAD_BYTES + CHECKSUM_BYTES;
const KEY_FIELD_BYTES_MAX = 4 + 32;
/** The largest payload is one batch: its body and its headers, 100,000 times at most HEADER_BYTES_MAX. */
const PAYLOAD_BYTES_MAX = 2_147_483_647;

/** The columns of the rows that this release writes, without `key`. */
export const columns = /\((.*?)\)/.exec(copyEventsSql)![1]!.split(', ');

/** Returns the head of a segment. @param names columns of its rows. */
export function encodeHead(names: readonly string[] = columns): Buffer {
  const list = names.join(',');
  const head = Buffer.alloc(FILE_MAGIC.length + 2 + list.length);
  FILE_MAGIC.copy(head);
  head.writeUInt16BE(list.length, FILE_MAGIC.length);
  head.write(list, FILE_MAGIC.length + 2, 'latin1');
  return Buffer.concat([head, checksum(head)]);
}

/** Returns the columns of a segment's rows and the place of its first frame; null if the head is incomplete or damaged. */
export async function readHead(file: DiskFile): Promise<{ columns: string[]; next: number } | null> {
  const start = await file.read(0, FILE_MAGIC.length + 2);
  if (start.length < FILE_MAGIC.length + 2 || !start.subarray(0, FILE_MAGIC.length).equals(FILE_MAGIC)) return null;
  const bytes = start.length + start.readUInt16BE(FILE_MAGIC.length);
  const head = await file.read(0, bytes + CHECKSUM_BYTES);
  if (!head.subarray(bytes).equals(checksum(head.subarray(0, bytes)))) return null;
  return { columns: head.toString('latin1', start.length, bytes).split(','), next: bytes + CHECKSUM_BYTES };
}

/** Encodes events as one frame. */
export function encodeFrame(rows: readonly EventRow[]): Buffer {
  let bytesMax = FRAME_OVERHEAD_BYTES;
  for (const row of rows) bytesMax += rowBytesMax(row) + KEY_FIELD_BYTES_MAX;
  const frame = Buffer.allocUnsafe(bytesMax);
  let at = FRAME_OVERHEAD_BYTES;
  for (const row of rows) at = writeKeyedRow(frame, at, row);
  return sealFrame(frame.subarray(0, at), rows.length);
}

/** Returns a frame of rows that are already encoded. */
export function frameOf({ events, payload }: Frame): Buffer {
  return sealFrame(Buffer.concat([Buffer.alloc(FRAME_OVERHEAD_BYTES), payload]), events);
}

function writeKeyedRow(frame: Buffer, start: number, row: EventRow): number {
  const end = writeRow(frame, start, row);
  frame.writeInt16BE(frame.readInt16BE(start) + 1, start);
  if (row.key === null) return frame.writeInt32BE(-1, end);
  const at = frame.writeInt32BE(row.key.length, end);
  frame.set(row.key, at);
  return at + row.key.length;
}

function sealFrame(frame: Buffer, events: number): Buffer {
  FRAME_MAGIC.copy(frame);
  frame.writeUInt32BE(frame.length - FRAME_OVERHEAD_BYTES, FRAME_MAGIC.length);
  frame.writeUInt32BE(events, FRAME_MAGIC.length + 4);
  checksum(frame.subarray(0, FRAME_HEAD_BYTES), frame.subarray(FRAME_OVERHEAD_BYTES)).copy(frame, FRAME_HEAD_BYTES);
  return frame;
}

/** Reads what is at a place of a segment. */
export async function readFrame(file: DiskFile, at: number): Promise<Read> {
  const bytes = await file.bytes();
  if (at >= bytes) return { kind: 'end' };
  const frame = await goodFrame(file, at, bytes);
  if (frame !== null) return { kind: 'frame', frame, next: at + FRAME_OVERHEAD_BYTES + frame.payload.length };
  const rest = await file.read(at, bytes - at);
  for (let found = rest.indexOf(FRAME_MAGIC, 1); found !== -1; found = rest.indexOf(FRAME_MAGIC, found + 1))
    if ((await goodFrame(file, at + found, bytes)) !== null) return { kind: 'damaged', next: at + found };
  return { kind: 'torn' };
}

/** Reads the size of the frame at a place without its payload, so unchecked. Null: there is none, or it is incomplete. */
export async function readFrameSize(file: DiskFile, at: number): Promise<{ events: number; next: number } | null> {
  const head = await file.read(at, FRAME_HEAD_BYTES);
  if (head.length < FRAME_HEAD_BYTES || !head.subarray(0, FRAME_MAGIC.length).equals(FRAME_MAGIC)) return null;
  const next = at + FRAME_OVERHEAD_BYTES + head.readUInt32BE(FRAME_MAGIC.length);
  return next > (await file.bytes()) ? null : { events: head.readUInt32BE(FRAME_MAGIC.length + 4), next };
}

async function goodFrame(file: DiskFile, at: number, fileBytes: number): Promise<Frame | null> {
  const head = await file.read(at, FRAME_OVERHEAD_BYTES);
  if (head.length < FRAME_OVERHEAD_BYTES || !head.subarray(0, FRAME_MAGIC.length).equals(FRAME_MAGIC)) return null;
  const bytes = head.readUInt32BE(FRAME_MAGIC.length);
  if (bytes > PAYLOAD_BYTES_MAX || at + FRAME_OVERHEAD_BYTES + bytes > fileBytes) return null;
  const payload = await file.read(at + FRAME_OVERHEAD_BYTES, bytes);
  const sum = checksum(head.subarray(0, FRAME_HEAD_BYTES), payload);
  if (!sum.equals(head.subarray(FRAME_HEAD_BYTES))) return null;
  return { events: head.readUInt32BE(FRAME_MAGIC.length + 4), payload };
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
export function receivedTimes(names: readonly string[], { events, payload }: Frame): number[] {
  const column = names.indexOf('received_at');
  const times: number[] = [];
  for (let row = 0, start = 0; row < events; row++, start = endOfRow(payload, start)) {
    let at = start + 2;
    for (let field = 0; field < column; field++) at += 4 + Math.max(0, payload.readInt32BE(at));
    times.push(timestampMs(payload.readBigInt64BE(at + 4)));
  }
  return times;
}

function endOfRow(payload: Buffer, start: number): number {
  let at = start + 2;
  for (let fields = payload.readInt16BE(start); fields > 0; fields--) at += 4 + Math.max(0, payload.readInt32BE(at));
  return at;
}

function checksum(...parts: Uint8Array[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest().subarray(0, CHECKSUM_BYTES);
}
