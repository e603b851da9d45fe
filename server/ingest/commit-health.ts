/** Whether an event that came now would be stored: told by the newest commit, or where none is recent by a probe. */

import { sqlStateKind } from '../db/sql-states.ts';
import { SharedCheck } from '../http/shared-check.ts';
import type { PersistObserver } from './persist.ts';

/** A commit or probe that ended well is believed for this long, a failed one until soon after. */
const GOOD_MS = 5_000;
const BAD_MS = 1_000;
/** readyz answers within a second, also when the database does not. */
const PATIENCE_MS = 800;

interface CommitHealthParts {
  /** Rejects as the commit of an event that came now. */
  probe: () => Promise<void>;
  /** A row found no partition. */
  onPartitionMissing: () => void;
  observer: Pick<PersistObserver, 'refused'>;
  /** Milliseconds of a clock that only goes forward. */
  nowMs: () => number;
}

export class CommitHealth {
  readonly #parts: CommitHealthParts;
  readonly #check: SharedCheck<boolean>;

  constructor(parts: CommitHealthParts) {
    this.#parts = parts;
    this.#check = new SharedCheck({
      ask: () => this.#probe(),
      validMs: (good) => (good ? GOOD_MS : BAD_MS),
      patienceMs: PATIENCE_MS,
      late: false,
      nowMs: parts.nowMs,
    });
  }

  /** Resolves within PATIENCE_MS. */
  commits(): Promise<boolean> {
    return this.#check.answer();
  }

  /** The observer of a writer, with what it is told heard here too. */
  listening<Observer extends Pick<PersistObserver, 'committed' | 'refused'>>(observer: Observer): Observer {
    return {
      ...observer,
      committed: (events, ms) => {
        this.#check.note(true);
        observer.committed(events, ms);
      },
      refused: (rows, sqlState, message) => {
        this.#refused(sqlState);
        observer.refused(rows, sqlState, message);
      },
    };
  }

  async #probe(): Promise<boolean> {
    try {
      await this.#parts.probe();
      return true;
    } catch (error) {
      const { code, message } = error as Error & { code?: string };
      if (code !== undefined) {
        this.#refused(code);
        this.#parts.observer.refused([], code, message);
      }
      return false;
    }
  }

  #refused(sqlState: string): void {
    const kind = sqlStateKind(sqlState);
    if (kind === 'data') return;
    this.#check.note(false);
    if (kind === 'partition_missing') this.#parts.onPartitionMissing();
  }
}
