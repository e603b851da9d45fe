import { within } from './every.ts';

interface SharedCheckOptions<T> {
  /** Runs the check. If it rejects, the answer is `late`. */
  ask: () => Promise<T>;
  /** How long an answer is cached. */
  validMs: (answer: T) => number;
  /** How long a caller waits for a running check, counted from the start of the check. */
  patienceMs: number;
  /** Answer after `patienceMs`. */
  late: T;
  /** Monotonic clock, in milliseconds. */
  nowMs: () => number;
}

/** An asynchronous check that callers share: one check runs at a time, its answer is cached, and waits are bounded. */
export class SharedCheck<T> {
  readonly #options: SharedCheckOptions<T>;
  #known: { answer: T; atMs: number } | null = null;
  #underWay: { answer: Promise<T>; startedMs: number } | null = null;

  constructor(options: SharedCheckOptions<T>) {
    this.#options = options;
  }

  /** The latest answer, however old; undefined: none yet. */
  get known(): T | undefined {
    return this.#known?.answer;
  }

  /** Records an answer obtained elsewhere. */
  note(answer: T): void {
    this.#known = { answer, atMs: this.#options.nowMs() };
  }

  /** Returns the cached answer or runs the check. Resolves within `patienceMs`; never rejects. */
  async answer(): Promise<T> {
    const { validMs, patienceMs, late, nowMs } = this.#options;
    if (this.#known !== null && nowMs() - this.#known.atMs < validMs(this.#known.answer)) return this.#known.answer;
    this.#underWay ??= { answer: this.#ask(), startedMs: nowMs() };
    const leftMs = this.#underWay.startedMs + patienceMs - nowMs();
    if (leftMs <= 0) return late;
    const answer = await within(leftMs, this.#underWay.answer);
    return answer === undefined ? late : answer;
  }

  async #ask(): Promise<T> {
    const startedMs = this.#options.nowMs();
    const answer = await this.#options.ask().catch(() => this.#options.late);
    this.#underWay = null;
    // Keep an answer noted while the check ran: it is newer.
    if (this.#known === null || this.#known.atMs <= startedMs) this.note(answer);
    return answer;
  }
}

/** Returns a function that reads at most once in `ms`; calls in that time share the read. A failed read is not kept. */
export function keptFor<T>(ms: number, read: (nowMs: number) => Promise<T>): (nowMs: number) => Promise<T> {
  let kept: { atMs: number; value: Promise<T> } | null = null;
  return (nowMs) => {
    if (kept === null || performance.now() - kept.atMs >= ms) {
      const next = { atMs: performance.now(), value: read(nowMs) };
      kept = next;
      next.value.catch(() => {
        if (kept === next) kept = null;
      });
    }
    return kept.value;
  };
}
