/** Why a cell cannot be used, or stores nothing, and since when. */
import type { CommitFailure } from '../commit-probe.ts';

/** The part of a Cell that knows its trouble. */
export abstract class CellTrouble {
  readonly #onChange: (reason: string | null) => void;
  #away: string | null = null;
  #awaySinceMs = 0;
  #failure: CommitFailure | null = null;
  #sinceMs: number | null = null;

  /** @param onChange called with the reason when the trouble begins, and with null when it ends. */
  constructor(onChange: (reason: string | null) => void) {
    this.#onChange = onChange;
  }

  /** Why the cell cannot be used; null: it can. */
  get away(): string | null {
    return this.#away;
  }

  /** Since when it cannot be used, Unix milliseconds; 0: it always could. */
  get awaySinceMs(): number {
    return this.#awaySinceMs;
  }

  /** Why it stores no events although it answers, such as a full disk; null: it stores them, as far as is known. */
  get failure(): CommitFailure | null {
    return this.#away === null ? this.#failure : null;
  }

  /** Why the requests to its webhooks are refused or spooled; null: they are stored. */
  get trouble(): string | null {
    return this.#away ?? this.#failure?.reason ?? null;
  }

  /** Since when it is in trouble, Unix milliseconds; 0: it is not. */
  get troubleSinceMs(): number {
    return this.#sinceMs ?? 0;
  }

  protected setAway(away: string | null): void {
    if (away !== null && this.#away === null) this.#awaySinceMs = Date.now();
    this.#away = away;
    this.#report();
  }

  protected setFailure(failure: CommitFailure | null): void {
    this.#failure = failure;
    this.#report();
  }

  #report(): void {
    const { trouble } = this;
    if ((trouble === null) === (this.#sinceMs === null)) return;
    this.#sinceMs = trouble === null ? null : Date.now();
    this.#onChange(trouble);
  }
}
