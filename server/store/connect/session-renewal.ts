/**
 * Replaces the sessions of a pool that may be read-only (SQLSTATE 25006): a session keeps default_transaction_read_only, or its server, which
 * became a standby.
 */

/** While the server stays read-only, all sessions are replaced at most once in this time. */
const EVERY_MS = 1_000;

export class SessionRenewal<Session extends object> {
  readonly #nowMs: () => number;
  readonly #generations = new WeakMap<Session, number>();
  #generation = 0;
  #renewedMs = Number.NEGATIVE_INFINITY;

  /** @param nowMs monotonic clock, in milliseconds. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  opened(session: Session): void {
    this.#generations.set(session, this.#generation);
  }

  /** False: close the session and open a new one. */
  isCurrent(session: Session): boolean {
    return this.#generations.get(session) === this.#generation;
  }

  /** Reports that the session could not write. */
  readOnly(session: Session): void {
    if (!this.isCurrent(session) || this.#nowMs() - this.#renewedMs < EVERY_MS) return;
    this.#renewedMs = this.#nowMs();
    this.#generation++;
  }
}
