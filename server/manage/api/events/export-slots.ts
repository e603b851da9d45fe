/**
 * Limits of exports. An export takes a connection of the database again and again, so READS_MAX read at a time, in turn. An export whose
 * client reads slowly takes no turn while it waits. What a client has not read is held in memory, so exports in progress are limited too.
 */
import { type Problem, problemLater } from '../../../base/http/problem.ts';

/** Exports in progress of a process. Each holds up to 5 MiB that its client has not read. */
export const EXPORTS_MAX = 8;
/** Exports in progress of one user, so that no user can hold all slots. */
export const USER_EXPORTS_MAX = 2;
/** Exports that read from the database at a time: half of the default DB_POOL_MAX. */
const READS_MAX = 2;
const RETRY_SECONDS = 10;

/** The slot of a local administrator, to whom the limits of exports in progress do not apply. */
export const noSlot = { kind: 'entered', leave: () => {} } as const;

export class ExportSlots {
  #open = 0;
  readonly #openOf = new Map<string, number>();
  #reading = 0;
  /** Exports that wait for their turn, oldest first. */
  readonly #waiting: (() => void)[] = [];

  /** Takes a slot for an export. `leave`: call it once, when the export has ended. */
  enter(userId: string): { kind: 'entered'; leave: () => void } | Problem {
    const own = this.#openOf.get(userId) ?? 0;
    if (own >= USER_EXPORTS_MAX) return problemLater('user_exports_full', RETRY_SECONDS);
    if (this.#open >= EXPORTS_MAX) return problemLater('exports_full', RETRY_SECONDS);
    this.#open++;
    this.#openOf.set(userId, own + 1);
    return { kind: 'entered', leave: () => this.#leave(userId) };
  }

  #leave(userId: string): void {
    this.#open--;
    const left = this.#openOf.get(userId)! - 1;
    if (left === 0) this.#openOf.delete(userId);
    else this.#openOf.set(userId, left);
  }

  /** Runs `read` in turn. */
  async inTurn<T>(read: () => Promise<T>): Promise<T> {
    // An export that finishes gives its turn to the oldest waiting one, so that a new export cannot take it.
    if (this.#reading < READS_MAX) this.#reading++;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await read();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#reading--;
      else next();
    }
  }
}
