/**
 * Counts requests of each webhook in memory and writes them every few seconds in one statement; those of many webhooks after the end of each
 * minute, so that a webhook has one write a minute. The request path adds to one object, which its cached webhook refers to: 1 ns of the
 * 27.8 us that a request costs in the event loop. A process that is killed loses the counts since its last write.
 */

import { MINUTE_MS } from '../../base/time/durations.ts';
import { type HistoryCounts, historyColumns, noCounts } from '../../model/history.ts';
import type { HistoryRow } from '../../store/queries/webhooks/history.ts';
import { VALUES_MAX, WriteBehind } from '../../store/write-behind.ts';

const EVERY_MS = 10_000;
/** Rows that wait for the database. Beyond it the objects go on counting, and their counts belong to a later minute. */
export const ROWS_MAX = 100_000;

export class IngestCounts {
  readonly #nowMs: () => number;
  readonly #counts = new Map<string, HistoryCounts>();
  /** By minute and webhook. */
  readonly #rows: WriteBehind<HistoryRow>;
  /** The last collection had rows of more than VALUES_MAX webhooks. */
  #hasMany = false;
  /** The minute of the last look, Unix milliseconds. */
  #minuteMs = 0;

  /** @param nowMs Unix milliseconds */
  constructor(write: (rows: readonly HistoryRow[]) => Promise<void>, nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
    const collect = () => this.#collectInTime();
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
    this.#collect(this.#minuteOfNow());
    return this.#rows.flush();
  }

  close(): Promise<void> {
    this.#collect(this.#minuteOfNow());
    return this.#rows.close();
  }

  /** Collects the counts of many webhooks in a minute in the first seconds of the next one. */
  #collectInTime(): void {
    const minuteMs = this.#minuteOfNow();
    if (!this.#hasMany) this.#collect(minuteMs);
    else if (minuteMs !== this.#minuteMs) this.#collect(this.#minuteMs);
    this.#minuteMs = minuteMs;
  }

  /** Moves the counts into the rows of a minute. */
  #collect(minuteMs: number): void {
    let webhooks = 0;
    for (const [webhookId, counts] of this.#counts) {
      if (this.#rows.size >= ROWS_MAX) break;
      if (historyColumns.every((name) => counts[name] === 0)) continue;
      webhooks++;
      this.#rows.note(`${minuteMs} ${webhookId}`, { webhookId, minuteMs, ...counts });
      for (const name of historyColumns) counts[name] = 0;
    }
    this.#hasMany = webhooks > VALUES_MAX;
  }

  #minuteOfNow(): number {
    return Math.floor(this.#nowMs() / MINUTE_MS) * MINUTE_MS;
  }
}

/** Adds the counts of the other row of the same webhook and minute. */
function sumOf(row: HistoryRow, other: HistoryRow): HistoryRow {
  for (const name of historyColumns) row[name] = (row[name] ?? 0) + (other[name] ?? 0);
  return row;
}
