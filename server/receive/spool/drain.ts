/**
 * Moves the events of the spool into the database: files of an installation, oldest first, one at a time. Only one process drains a
 * folder (see folder.ts), and each file has one drain. A drain may be killed anywhere: a file is removed only after its events are committed,
 * and an event that is stored again is skipped by its id.
 */
import { join } from 'node:path';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { type Disk, type DiskFile, realDisk } from './disk.ts';
import { fileName, isWaiting, parseName, type SegmentName } from './names.ts';
import { mayHoldFrame, readFrame, readHead } from './read-segment.ts';
import type { Frame } from './segment.ts';
import { SpoolStore } from './store.ts';
import { type DrainObserver, type DrainParts, storeRows, throwUnavailable, Unavailable } from './store-rows.ts';

/** `reason`: why it did not finish. */
type DrainOutcome = { kind: 'empty' } | { kind: 'stopped' } | { kind: 'unavailable'; reason: string };

/** Size of one transaction; a frame that is larger is one by itself. */
const CHUNK = { events: 4_000, bytes: 8_388_608 };

export class Drain {
  readonly #parts: DrainParts;
  #stopping = false;
  /** Where an interrupted drain of a file continues. */
  #done: { stem: string; at: number; damaged: boolean } | null = null;

  constructor(parts: DrainParts) {
    this.#parts = parts;
  }

  /** Drains until no file is left, the database fails, or `stop` is called. Rejects with errors of fs. */
  async run(): Promise<DrainOutcome> {
    const { disk, folder, takes, target } = this.#parts;
    try {
      for (;;) {
        const [oldest] = (await waitingFiles(disk, folder)).filter((name) => takes?.(name) ?? true);
        if (oldest === undefined) return { kind: 'empty' };
        if (this.#stopping) return { kind: 'stopped' };
        await target.connect().catch((error: Error) => throwUnavailable(error.message.trim()));
        if (!(await this.#drainFile(oldest))) return { kind: 'stopped' };
      }
    } catch (error) {
      if (error instanceof Unavailable) return { kind: 'unavailable', reason: error.message };
      throw error;
    }
  }

  /** Ends `run` after the transaction in progress. */
  stop(): void {
    this.#stopping = true;
  }

  /** Resolves with false when `stop` ended the drain before the end of the file. */
  async #drainFile({ stem, state }: SegmentName): Promise<boolean> {
    const { disk, folder, observer } = this.#parts;
    const path = join(folder, fileName(stem, 'draining'));
    // The rename makes the writer of this file start another one, see writer.ts.
    if (state === 'open') await disk.rename(join(folder, fileName(stem, 'open')), path);
    const file = await disk.open(path);
    let outcome: 'whole' | 'damaged' | 'stopped';
    try {
      outcome = await this.#drainFrames(file, stem);
    } finally {
      await file.close();
    }
    if (outcome === 'stopped') return false;
    this.#done = null;
    if (outcome === 'whole') await disk.remove(path);
    else {
      await disk.rename(path, join(folder, fileName(stem, 'damaged')));
      observer.damaged(fileName(stem, 'damaged'));
    }
    await disk.flushFolder(folder);
    return true;
  }

  async #drainFrames(file: DiskFile, stem: string): Promise<'whole' | 'damaged' | 'stopped'> {
    const head = await readHead(file);
    // A file whose head was never flushed has no frame.
    if (head === null) return (await mayHoldFrame(file)) ? 'damaged' : 'whole';
    let { at, damaged } = this.#done?.stem === stem ? this.#done : { at: head.next, damaged: false };
    for (let ended = false; !ended; ) {
      const frames: Frame[] = [];
      let events = 0;
      let bytes = 0;
      while (!ended && events < CHUNK.events && bytes < CHUNK.bytes) {
        const read = await readFrame(file, head, at);
        if (read.kind === 'damaged') damaged = true;
        if (read.kind === 'frame') {
          frames.push(read.frame);
          events += read.frame.events;
          bytes += read.frame.payload.length;
        }
        if (read.kind === 'frame' || read.kind === 'damaged') at = read.next;
        else ended = true;
      }
      if (events > 0) await storeRows(this.#parts, head.columns, joined(frames, events));
      this.#done = { stem, at, damaged };
      if (this.#stopping && !ended) return 'stopped';
    }
    return damaged ? 'damaged' : 'whole';
  }
}

/** Files with events for the database, oldest first. A file whose drain has begun comes before all others. */
export async function waitingFiles(disk: Disk, folder: string): Promise<SegmentName[]> {
  const names = (await disk.list(folder)).map(({ name }) => parseName(name));
  const rank = ({ state, stem }: SegmentName) => `${state === 'draining' ? 0 : 1} ${stem}`;
  return names
    .filter((name): name is SegmentName => name !== null && isWaiting(name))
    .sort((one, other) => (rank(one) < rank(other) ? -1 : 1));
}

function joined(frames: readonly Frame[], events: number): Frame {
  return frames.length === 1 ? frames[0]! : { events, payload: Buffer.concat(frames.map(({ payload }) => payload)) };
}

interface CellDrainParts {
  cells: Cells;
  folder: string;
  retentionDays: () => number;
  observer: DrainObserver;
}

/** The cell in which the events of a file are stored: the home cell if the file's own cell was removed. */
export function cellOfFile(cells: Cells, { cell }: SegmentName): Cell {
  return cells.find(cell) ?? cells.numbered(0);
}

/** A drain of the files of one cell. The caller calls `close`, which closes the connections. */
export function drainOf(
  { cells, folder, retentionDays, observer }: CellDrainParts,
  cell: Cell,
): { drain: Drain; close: () => void } {
  /** The stores of this cell, and of the cells that have deduplication keys of its events. */
  const stores = new Map<Cell, SpoolStore>();
  const storeOf = (one: Cell): SpoolStore => {
    const known = stores.get(one);
    if (known !== undefined) return known;
    const store = new SpoolStore(one, retentionDays, (number, keys) => storeOf(cells.numbered(number)).claim(keys));
    stores.set(one, store);
    return store;
  };
  const takes = (file: SegmentName) => cellOfFile(cells, file) === cell;
  const drain = new Drain({ disk: realDisk, folder, takes, target: storeOf(cell), observer });
  const close = () => {
    for (const store of stores.values()) store.close();
  };
  return { drain, close };
}
