/**
 * Outages of the database, as the primary sees them second by second. An outage is kept in a file in DATA_DIR until the database has it,
 * so that it is listed also after a restart. A killed primary loses the counts of the last SAVE_EVERY_MS.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from '../../base/files/durable-file.ts';
import type { OngoingOutage, Outage } from '../../model/issues.ts';
import { isoTime, uuidText, uuidv7 } from '../../store/ids.ts';
import type { Live } from './counters.ts';

/** An outage that refused and spooled nothing counts from this duration on: a start may wait this long for its connections. */
const SHORT_MS = 5_000;
/** An outage has ended once the database has answered for this long. Shorter recoveries are part of the outage. */
const CALM_MS = 5_000;
const SAVE_EVERY_MS = 5_000;
const STORE_AGAIN_MS = 10_000;
/** Outages that wait for the database; beyond it, the oldest is dropped. */
export const WAITING_MAX = 100;

/** `ended_at`: the last second without the database. */
interface Saved {
  ongoing: Outage | null;
  ended: Outage[];
}

interface OutageParts {
  dataDir: string;
  machine: string;
  /** Adds outages to the database, each at most once. */
  store: (outages: readonly Outage[]) => Promise<void>;
  /** The file could not be written: the outage is kept in memory. */
  onNotSaved: (error: Error) => void;
}

export class OutageLog {
  readonly #parts: OutageParts;
  readonly #path: string;
  #saved: Saved;
  #savedMs = Number.NEGATIVE_INFINITY;
  #storing: Promise<void> | null = null;
  #storeDueMs = Number.NEGATIVE_INFINITY;

  constructor(parts: OutageParts) {
    this.#parts = parts;
    this.#path = join(parts.dataDir, 'outages.json');
    this.#saved = readSaved(this.#path);
  }

  /** Adds the last second. Returns the outage that has not ended; null without one. */
  second({ second, database, processes }: Pick<Live, 'second' | 'database' | 'processes'>): OngoingOutage | null {
    const nowMs = Date.parse(second.at);
    // Without a process Weir is still starting, and refuses nothing.
    const isDown = database === 'down' && processes.length > 0;
    if (isDown) this.#saved.ongoing ??= this.#begin(nowMs - second.duration_ms);
    const { ongoing } = this.#saved;
    if (ongoing !== null) {
      if (isDown) ongoing.ended_at = second.at;
      ongoing.refused += second.failed;
      ongoing.spooled += second.spooled;
      if (nowMs - Date.parse(ongoing.ended_at) >= CALM_MS) this.#end(ongoing);
      else if (counts(ongoing) && nowMs - this.#savedMs >= SAVE_EVERY_MS) this.#save(nowMs);
    }
    if (database === 'up' && this.#saved.ended.length > 0 && nowMs >= this.#storeDueMs) this.#store(nowMs);
    const current = this.#saved.ongoing;
    if (current === null || !counts(current)) return null;
    return { began_at: current.began_at, refused: current.refused, spooled: current.spooled };
  }

  /** Saves the counts up to now, and waits for outages that are being stored. */
  async close(): Promise<void> {
    if (this.#saved.ongoing !== null && counts(this.#saved.ongoing)) this.#save(Date.now());
    await this.#storing;
  }

  #begin(beganMs: number): Outage {
    return {
      id: uuidText(uuidv7(beganMs, randomBytes(16))),
      machine: this.#parts.machine,
      began_at: isoTime(beganMs),
      ended_at: isoTime(beganMs),
      refused: 0,
      spooled: 0,
    };
  }

  #end(outage: Outage): void {
    this.#saved.ongoing = null;
    if (!counts(outage)) return;
    this.#saved.ended = [...this.#saved.ended, outage].slice(-WAITING_MAX);
    this.#save(Date.parse(outage.ended_at));
  }

  #store(nowMs: number): void {
    this.#storeDueMs = nowMs + STORE_AGAIN_MS;
    const stored = this.#saved.ended;
    this.#storing ??= this.#parts
      .store(stored)
      .then(
        () => {
          this.#saved.ended = this.#saved.ended.filter((outage) => !stored.includes(outage));
          this.#save(nowMs);
        },
        () => {
          // The database is away again: the outages stay in the file.
        },
      )
      .finally(() => {
        this.#storing = null;
      });
  }

  #save(nowMs: number): void {
    this.#savedMs = nowMs;
    const { ongoing, ended } = this.#saved;
    try {
      if (ongoing === null && ended.length === 0) rmSync(this.#path, { force: true });
      else replaceFile(this.#path, JSON.stringify(this.#saved));
    } catch (error) {
      this.#parts.onNotSaved(error as Error);
    }
  }
}

function counts({ began_at, ended_at, refused, spooled }: Outage): boolean {
  return refused + spooled > 0 || Date.parse(ended_at) - Date.parse(began_at) >= SHORT_MS;
}

/** Reads the file. Without a readable file there is no outage. */
function readSaved(path: string): Saved {
  try {
    const { ongoing, ended } = JSON.parse(readFileSync(path, 'utf8')) as Saved;
    return { ongoing, ended };
  } catch {
    return { ongoing: null, ended: [] };
  }
}
