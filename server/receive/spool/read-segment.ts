/**
 * Reads segment files of the spool, see segment.ts. Reading a file takes time linear in its size, whatever it contains.
 *
 * A crash can leave an incomplete frame at the end of a file. Its events were not answered, and nothing was written after it. A bad frame
 * with a good one behind it is damage to the disk or to the file. Good frames behind it hold events that were answered, so they are found by
 * the mark of the file, which no body contains.
 */
import type { DiskFile } from './disk.ts';
import {
  areRows,
  CHECKSUM_BYTES,
  checksum,
  FILE_MAGIC,
  FRAME_MAGIC,
  FRAME_OVERHEAD_BYTES,
  type Frame,
  frameMark,
  KEY_BYTES,
} from './segment.ts';

export interface Head {
  /** Columns of the rows, without `key`. */
  columns: string[];
  /** The beginning of each frame. */
  mark: Buffer;
  /** Offset of the first frame. */
  next: number;
}

/** What is at an offset of a segment. `torn`: an incomplete frame at the end. `damaged`: a bad frame, and where reading continues. */
type Read =
  | { kind: 'frame'; frame: Frame; next: number }
  | { kind: 'end' }
  | { kind: 'torn' }
  | { kind: 'damaged'; next: number };

/** A frame whose head is good. Its payload is not checked yet. */
interface Candidate {
  head: Buffer;
  events: number;
  /** Offset of the payload, and of what follows it. */
  payloadAt: number;
  end: number;
}

/** The largest payload is one batch: a body of at most 256 MiB and headers of at most 32 MiB (see batch.ts), in 100,000 rows. */
const PAYLOAD_BYTES_MAX = 2_147_483_647;
/** Bytes that a search reads at once. The first read is small, because the next frame is usually near. */
const SEARCH_BYTES = { first: 4_096, max: 1_048_576 };

/** Returns the head of a segment; null if it is incomplete or damaged. */
export async function readHead(file: DiskFile): Promise<Head | null> {
  const { length: sizeAt } = FILE_MAGIC;
  const start = await file.read(0, sizeAt + 2);
  if (start.length < sizeAt + 2 || !start.subarray(0, sizeAt).equals(FILE_MAGIC)) return null;
  const listEnd = start.length + start.readUInt16BE(sizeAt);
  const bytes = listEnd + KEY_BYTES;
  const head = await file.read(0, bytes + CHECKSUM_BYTES);
  if (!head.subarray(bytes).equals(checksum(head.subarray(0, bytes)))) return null;
  const columns = head.toString('latin1', start.length, listEnd).split(',');
  if (!columns.every((name) => /^[a-z_]+$/.test(name))) return null;
  return { columns, mark: frameMark(head.subarray(listEnd, bytes)), next: bytes + CHECKSUM_BYTES };
}

/** Reads what is at an offset of a segment. */
export async function readFrame(file: DiskFile, { mark, columns }: Head, at: number): Promise<Read> {
  const bytes = await file.bytes();
  if (at >= bytes) return { kind: 'end' };
  const candidate = await candidateAt(file, mark, at, bytes);
  if (candidate === null) return search(file, mark, at + 1, bytes);
  const frame = { events: candidate.events, payload: await readPayload(file, candidate) };
  const { end: next } = candidate;
  // Both sizes match their complements, so the frame ends where its head says.
  if (!isGood(candidate, frame.payload)) return search(file, mark, next, bytes);
  return areRows(frame, columns.length + 1) ? { kind: 'frame', frame, next } : { kind: 'damaged', next };
}

/** Reads the size of the frame at an offset without its payload, so unchecked. Null when no frame begins there, or it is incomplete. */
export async function readFrameSize(
  file: DiskFile,
  { mark }: Head,
  at: number,
): Promise<{ events: number; next: number } | null> {
  const candidate = await candidateAt(file, mark, at, await file.bytes());
  return candidate && { events: candidate.events, next: candidate.end };
}

/**
 * For a file without a good head. Returns true if the file holds a good frame with any key, even inside a body, or if finding out would read
 * more bytes than the file has. Such a file is kept.
 */
export async function mayHoldFrame(file: DiskFile): Promise<boolean> {
  const bytes = await file.bytes();
  let budget = bytes;
  for await (const { at, head } of offsetsOf(file, FRAME_MAGIC, 0, bytes)) {
    const candidate = candidateOf(head.subarray(0, FRAME_MAGIC.length + KEY_BYTES), head, at, bytes);
    if (candidate === null) continue;
    budget -= candidate.end - at;
    if (budget < 0 || isGood(candidate, await readPayload(file, candidate))) return true;
  }
  return false;
}

/** The next good frame by its mark. Frames do not overlap, so a bad one is skipped as a whole. */
async function search(file: DiskFile, mark: Buffer, from: number, bytes: number): Promise<Read> {
  let end = from;
  for await (const { at, head } of offsetsOf(file, mark, from, bytes)) {
    const candidate = at < end ? null : candidateOf(mark, head, at, bytes);
    if (candidate === null) continue;
    if (isGood(candidate, await readPayload(file, candidate))) return { kind: 'damaged', next: at };
    end = candidate.end;
  }
  return { kind: 'torn' };
}

/** Offsets of these bytes in order, each with the bytes that may be the head of a frame. */
async function* offsetsOf(file: DiskFile, mark: Buffer, from: number, bytes: number) {
  for (let start = from, size: number = SEARCH_BYTES.first; start < bytes; ) {
    const part = await file.read(start, size + FRAME_OVERHEAD_BYTES - 1);
    for (let found = part.indexOf(mark); found !== -1 && found < size; found = part.indexOf(mark, found + 1))
      yield { at: start + found, head: part.subarray(found, found + FRAME_OVERHEAD_BYTES) };
    start += size;
    size = Math.min(2 * size, SEARCH_BYTES.max);
  }
}

async function candidateAt(file: DiskFile, mark: Buffer, at: number, bytes: number): Promise<Candidate | null> {
  return candidateOf(mark, await file.read(at, FRAME_OVERHEAD_BYTES), at, bytes);
}

/** @param head FRAME_OVERHEAD_BYTES from the offset `at` on. Null: no frame begins there, or it is incomplete. */
function candidateOf(mark: Buffer, head: Buffer, at: number, bytes: number): Candidate | null {
  const sizesAt = mark.length;
  if (head.length < FRAME_OVERHEAD_BYTES || !head.subarray(0, sizesAt).equals(mark)) return null;
  const [payloadBytes, events] = [head.readUInt32BE(sizesAt), head.readUInt32BE(sizesAt + 4)];
  const isWhole = (size: number, complementAt: number) => head.readUInt32BE(complementAt) === ~size >>> 0;
  if (!isWhole(payloadBytes, sizesAt + 8) || !isWhole(events, sizesAt + 12)) return null;
  const payloadAt = at + head.length;
  const end = payloadAt + payloadBytes;
  return payloadBytes > PAYLOAD_BYTES_MAX || end > bytes ? null : { head, events, payloadAt, end };
}

function readPayload(file: DiskFile, { payloadAt, end }: Candidate): Promise<Buffer> {
  return file.read(payloadAt, end - payloadAt);
}

function isGood({ head }: Candidate, payload: Buffer): boolean {
  const sumAt = head.length - CHECKSUM_BYTES;
  return checksum(head.subarray(0, sumAt), payload).equals(head.subarray(sumAt));
}
