/** Whether a new event can be stored, judged by the latest commit, or by a probe when no commit is recent. */

import { sqlStateKind } from '../db/sql-states.ts';
import { SharedCheck } from '../http/shared-check.ts';
import type { CommitObserver } from './group-commit.ts';

/** How long the result of a commit or probe is valid: a success, and a failure. */
const GOOD_MS = 5_000;
const BAD_MS = 1_000;
/** Time limit of an answer: readyz answers within one second even when the database does not. */
const PATIENCE_MS = 800;

interface CommitHealthParts {
  /** Trial commit; rejects when the commit of a new event would fail. */
  probe: () => Promise<void>;
  /** Called when no partition accepts the row. */
  onPartitionMissing: () => void;
  observer: Pick<CommitObserver, 'refused'>;
  /** Monotonic clock, in milliseconds. */
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

  /** Whether commits succeed. Resolves within PATIENCE_MS, with false when there is no answer by then. */
  commits(): Promise<boolean> {
    return this.#check.answer();
  }

  /** Wraps the event store's observer, so that commits and refusals also update this check. */
  listening<Observer extends Pick<CommitObserver, 'committed' | 'refused'>>(observer: Observer): Observer {
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
