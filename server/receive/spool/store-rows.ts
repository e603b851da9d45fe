/** Stores the rows of a drain, and moves those that the database refuses out of the way. */
import { join } from 'node:path';
import type { Disk } from './disk.ts';
import { fileName, type SegmentName, stemOfEvent } from './names.ts';
import { encodedFrame, encodeHead, eventIdsOf, type Frame, frameMark, splitRows } from './segment.ts';
import type { DrainCounts, DrainTarget } from './store.ts';

export interface DrainObserver {
  committed(counts: DrainCounts): void;
  /** The database refuses the content of an event; it is kept in a file `refused`. */
  refused(sqlState: string, message: string): void;
  /** A file has bad bytes in front of frames, or no readable head; it is kept as `damaged`. */
  damaged(name: string): void;
}

export interface DrainParts {
  disk: Disk;
  folder: string;
  /** Which files are drained; absent: all. */
  takes?: (name: SegmentName) => boolean;
  target: DrainTarget;
  observer: DrainObserver;
}

/** The database cannot store anything now; the message is the reason. */
export class Unavailable extends Error {}

/** Stores the rows. Each event that the database refuses is moved to its own file. Rejects with Unavailable. */
export async function storeRows(parts: DrainParts, columns: readonly string[], rows: Frame): Promise<void> {
  const { target, observer } = parts;
  let result = await target.store(columns, rows);
  if (result.kind === 'unavailable' && result.partitionMissing) {
    await target.createPartitions(columns, rows).catch((error: Error) => throwUnavailable(error.message));
    result = await target.store(columns, rows);
    // The partitions exist now. CHECK constraints have the same SQLSTATE as a missing partition, so the row itself is refused.
    if (result.kind === 'unavailable' && result.partitionMissing)
      result = { kind: 'refused', sqlState: '23514', message: result.reason };
  }
  if (result.kind === 'unavailable') return throwUnavailable(result.reason);
  if (result.kind === 'committed') return observer.committed(result);
  if (rows.events === 1) {
    if (await putAside(parts, columns, rows)) observer.refused(result.sqlState, result.message);
    return;
  }
  for (const half of splitRows(rows, Math.ceil(rows.events / 2))) await storeRows(parts, columns, half);
}

/**
 * Returns false when the event was put aside before: a chunk is repeated when one of its later events could not be stored, or the drain was
 * killed. The file is renamed when it is complete, so a file with the final name is complete.
 */
async function putAside({ disk, folder }: DrainParts, columns: readonly string[], rows: Frame): Promise<boolean> {
  const stem = stemOfEvent(eventIdsOf(columns, rows)[0]!);
  const [path, draft] = [join(folder, fileName(stem, 'refused')), join(folder, `${stem}.draft`)];
  const kept = await disk.open(path).catch(() => null);
  if (kept !== null) {
    await kept.close();
    await disk.flushFolder(folder);
    return false;
  }
  // A drain that was killed may have left a draft.
  await disk.remove(draft).catch(() => {});
  const file = await disk.create(draft);
  try {
    const mark = frameMark();
    await file.write(0, Buffer.concat([encodeHead(mark, columns), encodedFrame(rows, mark)]));
    await file.flush();
  } finally {
    await file.close();
  }
  await disk.rename(draft, path);
  await disk.flushFolder(folder);
  return true;
}

/** Throws Unavailable. */
export function throwUnavailable(reason: string): never {
  throw new Unavailable(reason);
}
