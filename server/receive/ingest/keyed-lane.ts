/** A lane that commits events together with their deduplication keys, by one statement (see queries/events/store-deduped.ts). */
import { setTimeout as delay } from 'node:timers/promises';
import { within } from '../../base/time/every.ts';
import type { Database } from '../../store/connect/pool.ts';
import { sqlStateKind } from '../../store/connect/unavailable.ts';
import type { EventRow } from '../../store/copy/rows.ts';
import { uuidText } from '../../store/ids.ts';
import { findDeduped, type KeyedRow, storeDeduped } from '../../store/queries/events/store-deduped.ts';
import { type CommitOutcome, type CopyOptions, IN_DOUBT_MS, type Lane } from './copy-lane.ts';

export interface KeyedOptions extends Pick<CopyOptions, 'commitTimeoutMs' | 'spools'> {
  database: Database;
  /** Number of the cell; absent: home. */
  cell?: number;
  /** RETENTION_DAYS: a key expires with its event. */
  retentionDays: number;
}

/** Interval of the look-ups of keys after a lost result. */
const LOOK_UP_EVERY_MS = 100;

export class KeyedLane implements Lane {
  readonly #options: KeyedOptions;
  readonly #isUp: () => boolean;
  /** A statement exceeded the time limit and has not ended. */
  #timedOut = false;

  /** @param isUp last known state of the database; does not query. */
  constructor(options: KeyedOptions, isUp: () => boolean) {
    this.#options = options;
    this.#isUp = isUp;
  }

  get up(): boolean {
    return this.#isUp() && !this.#timedOut;
  }

  /** @param rows each with a key */
  async commit(rows: readonly EventRow[]): Promise<CommitOutcome> {
    const storing = this.#store(rows as readonly KeyedRow[]);
    if (!this.#options.spools) return storing;
    const outcome = await within(this.#options.commitTimeoutMs, storing);
    if (outcome !== undefined) return outcome;
    this.#timedOut = true;
    void storing.finally(() => {
      this.#timedOut = false;
    });
    return { kind: 'lost', lookUp: null };
  }

  async #store(rows: readonly KeyedRow[]): Promise<CommitOutcome> {
    const { distinct, indexes } = firstOfEachKey(rows);
    const { database, retentionDays, cell } = this.#options;
    try {
      const eventIds = await storeDeduped(database, distinct, retentionDays, cell);
      return { kind: 'committed', eventIds: indexes.map((index) => eventIds[index]!) };
    } catch (error) {
      const { code: sqlState = '', message } = error as Error & { code?: string };
      // An error without SQLSTATE is a lost connection or a timeout.
      if (sqlState === '' || sqlStateKind(sqlState) === 'session_ended')
        return { kind: 'lost', lookUp: this.#options.spools ? null : () => this.#lookUp(rows) };
      return { kind: 'refused', sqlState, message };
    }
  }

  /** A row is stored if its key exists, from this statement or an earlier one. */
  async #lookUp(rows: readonly KeyedRow[]): Promise<(string | null)[]> {
    const endMs = performance.now() + IN_DOUBT_MS;
    while (performance.now() < endMs) {
      try {
        return await findDeduped(this.#options.database, rows);
      } catch {
        await delay(LOOK_UP_EVERY_MS);
      }
    }
    return rows.map(() => null);
  }
}

/** Returns the first row of each key, and for each given row the index in `distinct` of the row with its key. */
function firstOfEachKey(rows: readonly KeyedRow[]): { distinct: KeyedRow[]; indexes: number[] } {
  const distinct: KeyedRow[] = [];
  const known = new Map<string, number>();
  const indexes = rows.map((row) => {
    const name = `${uuidText(row.webhookId)}${Buffer.from(row.key).toString('latin1')}`;
    const index = known.get(name) ?? distinct.push(row) - 1;
    known.set(name, index);
    return index;
  });
  return { distinct, indexes };
}
