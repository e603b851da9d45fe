/** Whether a new event can be stored, judged by the latest commit, or by a probe when no commit is recent. */
import { SharedCheck } from '../../base/time/shared-check.ts';
import type { CommitFailure } from '../../store/commit-probe.ts';
import { sqlStateKind } from '../../store/connect/unavailable.ts';
import type { CommitObserver } from './group-commit.ts';

/** How long the result of a commit or probe is valid: GOOD_MS after a success, BAD_MS after a failure. */
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
  readonly #check: SharedCheck<CommitFailure | null>;

  constructor(parts: CommitHealthParts) {
    this.#parts = parts;
    this.#check = new SharedCheck({
      ask: () => this.#probe(),
      validMs: (failure) => (failure === null ? GOOD_MS : BAD_MS),
      patienceMs: PATIENCE_MS,
      late: { sqlState: null, reason: `no answer within ${PATIENCE_MS} ms` },
      nowMs: parts.nowMs,
    });
  }

  /** Why commits fail; null: they succeed. Resolves within PATIENCE_MS, with a failure when there is no answer by then. */
  failure(): Promise<CommitFailure | null> {
    return this.#check.answer();
  }

  /** True: the latest commit or probe failed. Once that is BAD_MS ago, a call starts another probe, so that a later call sees the recovery. */
  get failing(): boolean {
    const failing = (this.#check.known ?? null) !== null;
    if (failing) void this.#check.answer();
    return failing;
  }

  /** Wraps the event store's observer, so that commits and refusals also update this check. */
  listening<Observer extends Pick<CommitObserver, 'committed' | 'refused'>>(observer: Observer): Observer {
    return {
      ...observer,
      committed: (events, ms, rows) => {
        this.#check.note(null);
        observer.committed(events, ms, rows);
      },
      refused: (rows, sqlState, message) => {
        this.#refused(sqlState, message);
        observer.refused(rows, sqlState, message);
      },
    };
  }

  async #probe(): Promise<CommitFailure | null> {
    try {
      await this.#parts.probe();
      return null;
    } catch (error) {
      const { code, message } = error as Error & { code?: string };
      if (code !== undefined) {
        this.#refused(code, message);
        this.#parts.observer.refused([], code, message);
      }
      return { sqlState: code ?? null, reason: message };
    }
  }

  #refused(sqlState: string, reason: string): void {
    const kind = sqlStateKind(sqlState);
    if (kind === 'data') return;
    this.#check.note({ sqlState, reason });
    if (kind === 'partition_missing') this.#parts.onPartitionMissing();
  }
}
