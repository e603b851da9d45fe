/**
 * Counts requests of each webhook in memory and writes them every few seconds in one statement. The request path adds to one object,
 * which its cached webhook refers to: 1 ns of the 27.8 us that a request costs in the event loop. A process that is killed loses the counts since its last
 * write.
 */

import { type HistoryCounts, historyColumns, noCounts } from '../../model/history.ts';
import type { HistoryRow } from '../../store/queries/history.ts';
import { WriteBehind } from './write-behind.ts';

const EVERY_MS = 10_000;
const MINUTE_MS = 60_000;
/** Rows that wait for the database. Beyond it the objects go on counting, and their counts belong to a later minute. */
export const ROWS_MAX = 100_000;

export class IngestCounts {
  readonly #nowMs: () => number;
  readonly #counts = new Map<string, HistoryCounts>();
  /** By minute and webhook. */
  readonly #rows: WriteBehind<HistoryRow>;

  /** @param nowMs Unix milliseconds */
  constructor(write: (rows: readonly HistoryRow[]) => Promise<void>, nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
    const collect = () => this.#collect();
    this.#rows = new WriteBehind((rows) => write([...rows.values()]), sumOf, { everyMs: EVERY_MS, collect });
  }

  /** The counts of a webhook since the last write: always the same object, to be added to. */
  of(webhookId: string): HistoryCounts {
    let counts = this.#counts.get(webhookId);
    if (counts === undefined) {
      counts = noCounts();
      this.#counts.set(webhookId, counts);
    }
    return counts;
  }

  /** Writes the counts after any write under way. After an error they are kept, with their minute, for the next write. */
  flush(): Promise<void> {
    return this.#rows.flush();
  }

  close(): Promise<void> {
    return this.#rows.close();
  }

  /** Moves the counts into the rows of this minute. */
  #collect(): void {
    const minuteMs = Math.floor(this.#nowMs() / MINUTE_MS) * MINUTE_MS;
    for (const [webhookId, counts] of this.#counts) {
      if (this.#rows.size >= ROWS_MAX) return;
      if (historyColumns.every((name) => counts[name] === 0)) continue;
      this.#rows.note(`${minuteMs} ${webhookId}`, { webhookId, minuteMs, ...counts });
      for (const name of historyColumns) counts[name] = 0;
    }
  }
}

/** Adds the counts of the other row of the same webhook and minute. */
function sumOf(row: HistoryRow, other: HistoryRow): HistoryRow {
  for (const name of historyColumns) row[name] = (row[name] ?? 0) + (other[name] ?? 0);
  return row;
}
