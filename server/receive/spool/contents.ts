/** What is in a spool folder. Counts new frames only, so it can be asked every second. */
import { join } from 'node:path';
import type { Disk } from './disk.ts';
import { fileName, isWaiting, parseName, type SegmentName } from './names.ts';
import { type Head, readFrameSize, readHead } from './read-segment.ts';

export interface SpoolContents {
  bytes: number;
  /** Files and events that wait for the drain. Events that a drain in progress has stored are included until its file is done. */
  files: number;
  events: number;
  /** When the oldest waiting file was created, Unix milliseconds; null: none waits. */
  oldestMs: number | null;
  /** Files that the operator has to look at, see names.ts. */
  damaged: number;
  refused: number;
}

export const emptySpool: SpoolContents = { bytes: 0, files: 0, events: 0, oldestMs: null, damaged: 0, refused: 0 };

interface Counted {
  /** Null: not read yet. */
  head: Head | null;
  next: number;
  events: number;
}

export class SpoolReader {
  readonly #disk: Disk;
  readonly #folder: string;
  #counted = new Map<string, Counted>();

  constructor(disk: Disk, folder: string) {
    this.#disk = disk;
    this.#folder = folder;
  }

  /** Rejects with errors of fs when the folder cannot be read. */
  async read(): Promise<SpoolContents> {
    const contents = { ...emptySpool };
    const counted = new Map<string, Counted>();
    for (const file of await this.#disk.list(this.#folder)) {
      const name = parseName(file.name);
      contents.bytes += file.bytes;
      if (name === null) continue;
      if (name.state === 'damaged') contents.damaged++;
      if (name.state === 'refused') contents.refused++;
      if (!isWaiting(name)) continue;
      const known = await this.#count(name);
      counted.set(name.stem, known);
      contents.files++;
      contents.events += known.events;
      contents.oldestMs = Math.min(contents.oldestMs ?? name.createdMs, name.createdMs);
    }
    this.#counted = counted;
    return contents;
  }

  /** A file that was drained since the folder was listed has its last known count. */
  async #count({ stem, state }: SegmentName): Promise<Counted> {
    const counted = this.#counted.get(stem) ?? { head: null, next: 0, events: 0 };
    try {
      const file = await this.#disk.open(join(this.#folder, fileName(stem, state)));
      try {
        counted.head ??= await readHead(file);
        if (counted.head === null) return counted;
        counted.next ||= counted.head.next;
        for (let size = await readFrameSize(file, counted.head, counted.next); size !== null; ) {
          counted.events += size.events;
          counted.next = size.next;
          size = await readFrameSize(file, counted.head, counted.next);
        }
      } finally {
        await file.close();
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    return counted;
  }
}
