/**
 * Reads segment files of the spool, see segment.ts. Reading a file takes time linear in its size, whatever it contains.
 *
 * A crash can leave an incomplete frame at the end of a file. Its events were not answered, and nothing was written after it. A bad frame
 * with a good one behind it is damage to the disk or to the file. Good frames behind it hold events that were answered, so they are found:
 *
 *     format 2   by the mark of the file, which no body contains
 *     format 1   by the sizes alone: the sizes of the bad frame must agree with the lengths in its rows. A search for the mark would find
 *                frames inside of bodies, so without this agreement nothing more of the file is stored, and the file is kept.
 */
import type { DiskFile } from './disk.ts';
import {
  areRows,
  CHECKSUM_BYTES,
  checksum,
  FILE_MAGIC,
  FILE_MAGIC_BYTES,
  FRAME_MAGIC,
  FRAME_OVERHEAD_BYTES,
  type Frame,
  frameHeadBytes,
  KEY_BYTES,
  keyedLayout,
  type Layout,
  oldLayout,
} from './segment.ts';

export interface Head {
  /** Columns of the rows, without `key`. */
  columns: string[];
  layout: Layout;
  /** Offset of the first frame. */
  next: number;
}

/** What is at an offset of a segment. `torn`: an incomplete frame at the end. `damaged`: a bad frame, and where reading continues; null: nowhere. */
type Read =
  | { kind: 'frame'; frame: Frame; next: number }
  | { kind: 'end' }
  | { kind: 'torn' }
  | { kind: 'damaged'; next: number | null };

/** A frame by its head: its payload may be bad. */
interface Candidate {
  head: Buffer;
  events: number;
  /** Offset of the payload, and of what follows it. */
  payloadAt: number;
  end: number;
}

/** The largest payload is one batch: its body and its headers, 100,000 times at most HEADER_BYTES_MAX. */
const PAYLOAD_BYTES_MAX = 2_147_483_647;
/** A search reads so much at once. It begins with little, because the next frame is usually near. */
const SEARCH_BYTES = { first: 4_096, max: 1_048_576 };

/** Returns the head of a segment; null if it is incomplete or damaged. */
export async function readHead(file: DiskFile): Promise<Head | null> {
  const start = await file.read(0, FILE_MAGIC_BYTES + 2);
  if (start.length < FILE_MAGIC_BYTES + 2) return null;
  const magic = start.subarray(0, FILE_MAGIC_BYTES);
  const isKeyed = magic.equals(FILE_MAGIC.keyed);
  if (!isKeyed && !magic.equals(FILE_MAGIC.old)) return null;
  const listEnd = start.length + start.readUInt16BE(FILE_MAGIC_BYTES);
  const bytes = listEnd + (isKeyed ? KEY_BYTES : 0);
  const head = await file.read(0, bytes + CHECKSUM_BYTES);
  if (!head.subarray(bytes).equals(checksum(head.subarray(0, bytes)))) return null;
  const columns = head.toString('latin1', start.length, listEnd).split(',');
  if (!columns.every((name) => /^[a-z_]+$/.test(name))) return null;
  const layout = isKeyed ? keyedLayout(head.subarray(listEnd, bytes)) : oldLayout;
  return { columns, layout, next: bytes + CHECKSUM_BYTES };
}

/** Reads what is at an offset of a segment. */
export async function readFrame(file: DiskFile, { layout, columns }: Head, at: number): Promise<Read> {
  const bytes = await file.bytes();
  if (at >= bytes) return { kind: 'end' };
  const candidate = await candidateAt(file, layout, at, bytes);
  if (candidate !== null) {
    const frame = { events: candidate.events, payload: await readPayload(file, candidate) };
    const hasRows = areRows(frame, columns.length + 1);
    const { end: next } = candidate;
    if (isGood(candidate, frame.payload)) return hasRows ? { kind: 'frame', frame, next } : { kind: 'damaged', next };
    // Both sizes are whole, so the frame ends where its head says.
    if (layout.isKeyed) return search(file, layout, next, bytes);
    if (next === bytes) return { kind: 'torn' };
    if (hasRows) return { kind: 'damaged', next };
  }
  if (layout.isKeyed) return search(file, layout, at + 1, bytes);
  return (await mayHoldFrame(file, at + 1)) ? { kind: 'damaged', next: null } : { kind: 'torn' };
}

/** Reads the size of the frame at an offset without its payload, so unchecked. Null when no frame begins there, or it is incomplete. */
export async function readFrameSize(
  file: DiskFile,
  { layout }: Head,
  at: number,
): Promise<{ events: number; next: number } | null> {
  const candidate = await candidateAt(file, layout, at, await file.bytes());
  return candidate && { events: candidate.events, next: candidate.end };
}

/**
 * For a file whose layout is not known, and for format 1: true if a good frame is in the file from this offset on, in a body or not, or if
 * that would take more than reading the file once more. Such a file is kept.
 */
export async function mayHoldFrame(file: DiskFile, from: number): Promise<boolean> {
  const bytes = await file.bytes();
  for (const magic of [FRAME_MAGIC.keyed, FRAME_MAGIC.old]) {
    let budget = bytes;
    const isOld = magic === FRAME_MAGIC.old;
    for await (const { at, head } of offsetsOf(file, magic, from, bytes)) {
      const layout = isOld ? oldLayout : keyedLayout(head.subarray(magic.length, magic.length + KEY_BYTES));
      const candidate = candidateOf(layout, head, at, bytes);
      if (candidate === null) continue;
      budget -= candidate.end - at;
      if (budget < 0 || isGood(candidate, await readPayload(file, candidate))) return true;
    }
  }
  return false;
}

/** The next good frame by its mark. Frames do not overlap, so a bad one is skipped as a whole. */
async function search(file: DiskFile, layout: Layout, from: number, bytes: number): Promise<Read> {
  let end = from;
  for await (const { at, head } of offsetsOf(file, layout.mark, from, bytes)) {
    const candidate = at < end ? null : candidateOf(layout, head, at, bytes);
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

async function candidateAt(file: DiskFile, layout: Layout, at: number, bytes: number): Promise<Candidate | null> {
  return candidateOf(layout, await file.read(at, FRAME_OVERHEAD_BYTES), at, bytes);
}

/** @param start bytes at the offset `at`. Null: no frame begins there, or it is incomplete. */
function candidateOf(layout: Layout, start: Buffer, at: number, bytes: number): Candidate | null {
  const head = start.subarray(0, frameHeadBytes(layout) + CHECKSUM_BYTES);
  const sizesAt = layout.mark.length;
  if (head.length < frameHeadBytes(layout) + CHECKSUM_BYTES || !head.subarray(0, sizesAt).equals(layout.mark))
    return null;
  const [payloadBytes, events] = [head.readUInt32BE(sizesAt), head.readUInt32BE(sizesAt + 4)];
  const isWhole = (size: number, complementAt: number) => head.readUInt32BE(complementAt) === ~size >>> 0;
  if (layout.isKeyed && !(isWhole(payloadBytes, sizesAt + 8) && isWhole(events, sizesAt + 12))) return null;
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
