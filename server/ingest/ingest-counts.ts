/**
 * Counts requests of each webhook in memory and writes them every few seconds in one statement. The request path adds to one object,
 * which its cached webhook refers to: 1 ns of the 50 us that a request costs. No request waits for the write. A process that is killed loses the counts since its last write.
 */
import type { HistoryRow } from '../db/queries/history.ts';
import { type HistoryCounts, historyColumns } from '../resources/history.ts';

const EVERY_MS = 10_000;
const MINUTE_MS = 60_000;
/** Time limit of the last write when the process exits. */
const LAST_WRITE_MS = 1_000;
/** Rows that wait for the database. Beyond it the objects go on counting, and their counts belong to a later minute. */
export const ROWS_MAX = 20_000;

export class IngestCounts {
  readonly #write: (rows: readonly HistoryRow[]) => Promise<void>;
  readonly #nowMs: () => number;
  readonly #timer: NodeJS.Timeout;
  readonly #counts = new Map<string, HistoryCounts>();
  /** By minute and webhook. */
  #rows = new Map<string, HistoryRow>();
  #writing: Promise<void> = Promise.resolve();

  /** @param nowMs Unix milliseconds */
  constructor(write: (rows: readonly HistoryRow[]) => Promise<void>, nowMs: () => number = Date.now) {
    this.#write = write;
    this.#nowMs = nowMs;
    this.#timer = setInterval(() => void this.flush(), EVERY_MS).unref();
  }

  /** The counts of a webhook since the last write: always the same object, to be added to. */
  of(webhookId: string): HistoryCounts {
    let counts = this.#counts.get(webhookId);
    if (counts === undefined) {
      counts = { accepted: 0, duplicates: 0, rejected: 0, limited: 0, bytes: 0 };
      this.#counts.set(webhookId, counts);
    }
    return counts;
  }

  /** Writes the counts after any write under way. After an error they are kept, with their minute, for the next write. */
  flush(): Promise<void> {
    this.#take();
    this.#writing = this.#writing.then(() => this.#flush());
    return this.#writing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.race([this.flush(), new Promise((resolve) => setTimeout(resolve, LAST_WRITE_MS).unref())]);
  }

  /** Moves the counts into the rows of this minute. */
  #take(): void {
    const minuteMs = Math.floor(this.#nowMs() / MINUTE_MS) * MINUTE_MS;
    for (const [webhookId, counts] of this.#counts) {
      if (this.#rows.size >= ROWS_MAX) return;
      if (historyColumns.every((name) => counts[name] === 0)) continue;
      this.#add({ webhookId, minuteMs, ...counts });
      for (const name of historyColumns) counts[name] = 0;
    }
  }

  #add(row: HistoryRow): void {
    const key = `${row.minuteMs} ${row.webhookId}`;
    const known = this.#rows.get(key);
    if (known === undefined) this.#rows.set(key, row);
    else for (const name of historyColumns) known[name] += row[name];
  }

  async #flush(): Promise<void> {
    if (this.#rows.size === 0) return;
    const rows = this.#rows;
    this.#rows = new Map();
    try {
      await this.#write([...rows.values()]);
    } catch {
      for (const row of rows.values()) this.#add(row);
    }
  }
}
