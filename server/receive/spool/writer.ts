/**
 * Appends events to the spool. Each process has one writer for each cell, each writer has its own files: nothing is locked between processes,
 * and the events of a cell that is away do not delay those of other cells.
 *
 * The drain takes a file by renaming it, whether its process lives or not, and reads it afterwards. So a writer checks the name of its
 * file after each flush. If the name is still there, the drain has not read the file yet, and will find the frame. Otherwise the drain may
 * have missed the frame, and the writer writes it again into a new file. An event that is in two files is stored once: it has one id.
 */
import { join } from 'node:path';
import type { EventRow } from '../../store/copy/rows.ts';
import type { Disk, DiskFile } from './disk.ts';
import { fileName, isWaiting, newStem, parseName } from './names.ts';
import { encodeFrame, encodeHead, frameMark, sealFrame } from './segment.ts';

/** Why the spool takes no event: INGEST_SPOOL_BYTES_MAX, INGEST_SPOOL_HOURS_MAX, or the disk failed. */
type SpoolRefusal = 'full' | 'too_old' | 'failed';

interface WriterParts {
  disk: Disk;
  /** Folder of the installation; all its processes write there. */
  folder: string;
  /** The cell of the events; absent: home. */
  cell?: number;
  /** INGEST_SPOOL_BYTES_MAX, for the folder. */
  bytesMax: number;
  /** INGEST_SPOOL_HOURS_MAX, in milliseconds. */
  ageMaxMs: number;
  /** Number of writers that may share the folder now: a cell that is added brings one in each process. */
  writers: () => number;
  /** Unix milliseconds. */
  nowMs: () => number;
  /** The disk refused a write or a flush. */
  onFailed: (error: Error) => void;
}

interface Segment {
  file: DiskFile;
  path: string;
  mark: Buffer;
  /** End of the flushed frames. */
  at: number;
}

const SEGMENT_BYTES = { min: 65_536, max: 16_777_216 };
/** How long the known state of the folder is used. A disk that failed is not tried again for this long either. */
const CHECK_EVERY_MS = 1_000;

/** Size at which a writer starts its next file: every writer can have several within the limit. */
export function segmentBytes(bytesMax: number, writers: number): number {
  return Math.min(SEGMENT_BYTES.max, Math.max(SEGMENT_BYTES.min, Math.floor(bytesMax / (8 * writers))));
}

export class SpoolWriter {
  readonly #parts: WriterParts;
  #segment: Segment | null = null;
  /** State of the folder when it was last checked. */
  #refusal: SpoolRefusal | null = null;
  #checkedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  /** Resolves with null once all events survive a power cut; otherwise with the reason. Never rejects. One call at a time. */
  async append(rows: readonly EventRow[]): Promise<SpoolRefusal | null> {
    const frame = encodeFrame(rows);
    for (;;) {
      const refusal = await this.refusal();
      if (refusal !== null && (refusal !== 'full' || !this.#fits(frame.length))) return refusal;
      try {
        const segment = await this.#segmentFor(frame.length);
        if (segment === null) return this.#refuse('full');
        await segment.file.write(segment.at, sealFrame(frame, rows.length, segment.mark));
        await segment.file.flush();
        if (await segment.file.isAt(segment.path)) {
          segment.at += frame.length;
          return null;
        }
        await this.#leave();
      } catch (error) {
        await this.#abandon();
        this.#parts.onFailed(error as Error);
        return this.#refuse('failed');
      }
    }
  }

  /** Why an event would be refused now; null when it would be stored. Never rejects. */
  async refusal(): Promise<SpoolRefusal | null> {
    const { nowMs, ageMaxMs, bytesMax } = this.#parts;
    const elapsedMs = nowMs() - this.#checkedMs;
    if (elapsedMs >= 0 && elapsedMs < CHECK_EVERY_MS) return this.#refusal;
    try {
      const { bytes, oldestMs } = await this.#measureFolder();
      if (nowMs() - oldestMs > ageMaxMs) return this.#refuse('too_old');
      return this.#refuse(bytes + this.#segmentBytes > bytesMax ? 'full' : null);
    } catch {
      return this.#refuse('failed');
    }
  }

  /** The last result of `refusal`. */
  get lastRefusal(): SpoolRefusal | null {
    return this.#refusal;
  }

  /** Writes, flushes and removes a file. Rejects when the spool cannot work for the user of this process. */
  async check(): Promise<void> {
    const { disk, folder, nowMs } = this.#parts;
    const path = join(folder, `${newStem(nowMs())}.check`);
    const file = await disk.create(path);
    try {
      await file.write(0, encodeHead(frameMark()));
      await file.flush();
    } finally {
      await file.close();
      await disk.remove(path);
    }
    await disk.flushFolder(folder);
  }

  get #segmentBytes(): number {
    return segmentBytes(this.#parts.bytesMax, this.#parts.writers());
  }

  /** Closes the file. The drain takes the file in its turn. */
  async close(): Promise<void> {
    await this.#leave();
  }

  #refuse(refusal: SpoolRefusal | null): SpoolRefusal | null {
    this.#refusal = refusal;
    this.#checkedMs = this.#parts.nowMs();
    return refusal;
  }

  #fits(bytes: number): boolean {
    return this.#segment !== null && this.#segment.at + bytes <= this.#segmentBytes;
  }

  async #segmentFor(bytes: number): Promise<Segment | null> {
    if (this.#fits(bytes)) return this.#segment;
    await this.#leave();
    const { disk, folder, cell, bytesMax, nowMs } = this.#parts;
    const path = join(folder, fileName(newStem(nowMs(), cell), 'open'));
    const mark = frameMark();
    const head = encodeHead(mark);
    const file = await disk.create(path);
    this.#segment = { file, path, mark, at: head.length };
    // A large frame has a file of its own, with its size from the start, so that other writers count it.
    if (head.length + bytes > this.#segmentBytes) await file.truncate(head.length + bytes);
    // The file is created first and counted second: of two writers that create the last file at once, each counts the other's file.
    if ((await this.#measureFolder()).bytes > bytesMax) {
      await this.#leave();
      await disk.remove(path);
      return null;
    }
    await file.write(0, head);
    await disk.flushFolder(folder);
    return this.#segment;
  }

  /** The folder's size, with every open file at its full size, and the age of the oldest waiting file of the cell. */
  async #measureFolder(): Promise<{ bytes: number; oldestMs: number }> {
    const { disk, folder, cell = 0 } = this.#parts;
    let bytes = 0;
    let oldestMs = Number.POSITIVE_INFINITY;
    for (const file of await disk.list(folder)) {
      const name = parseName(file.name);
      bytes += name?.state === 'open' ? Math.max(file.bytes, this.#segmentBytes) : file.bytes;
      if (name?.cell === cell && isWaiting(name)) oldestMs = Math.min(oldestMs, name.createdMs);
    }
    return { bytes, oldestMs };
  }

  async #leave(): Promise<void> {
    const segment = this.#segment;
    this.#segment = null;
    await segment?.file.close();
  }

  /** After a failed write or flush, the content of the file on the disk is unknown, so it is not used again. Cuts off the incomplete frame. */
  async #abandon(): Promise<void> {
    const segment = this.#segment;
    if (segment === null) return;
    await segment.file.truncate(segment.at).catch(() => {});
    await this.#leave().catch(() => {});
  }
}
