/** The deaths of serving processes: what is reported of them, and when no other process is started. */
import { backoffMs } from '../../base/time/backoff.ts';
import { DEATHS_KEPT, noDeaths, type ProcessDeath, type ProcessDeaths } from '../../model/machines.ts';
import { isoTime } from '../../store/ids.ts';
import type { Child } from './child.ts';

/** The deaths since the start of the primary, in memory: the newest, and their number. */
export class DeathLog {
  #known = noDeaths;
  /** Deaths since which not all processes have served, with the time of each. */
  #open: { death: ProcessDeath; sinceMs: number }[] = [];

  get known(): ProcessDeaths {
    return this.#known;
  }

  /** Adds a process that has ended by itself. */
  add({ pid = 0, reason, livedMs }: Pick<Child, 'pid' | 'reason' | 'livedMs'>): void {
    const death: ProcessDeath = {
      at: isoTime(Date.now()),
      pid,
      reason: typeof reason === 'number' ? `exit code ${reason}` : reason,
      ran_ms: Math.round(livedMs),
      recovered_ms: null,
    };
    const { total, newest } = this.#known;
    this.#known = { total: total + 1, newest: [death, ...newest].slice(0, DEATHS_KEPT) };
    this.#open = [...this.#open, { death, sinceMs: performance.now() }].slice(-DEATHS_KEPT);
  }

  /** All processes serve. */
  recovered(): void {
    const nowMs = performance.now();
    for (const { death, sinceMs } of this.#open) death.recovered_ms = Math.round(nowMs - sinceMs);
    this.#open = [];
  }
}

/**
 * A process that ends before it serves, or this soon after its start, suggests that its replacement will end too. One that serves for
 * longer is proven.
 */
const QUICK_DEATH_MS = 3_000;
const UNSERVED_DEATHS_MAX = 10;
const PAUSE = { firstMs: 100, maxMs: 5_000 };

/**
 * Processes that end soon after their start, one after the other: forks pause for longer after each. The supervisor gives up when
 * UNSERVED_DEATHS_MAX in a row ended before they served. A process that has served does not count: what a client sent may have ended it.
 * While a proven process serves, replacements are retried without limit.
 */
export class QuickDeaths {
  #count = 0;
  /** Processes in a row that ended before they served. */
  #unserved = 0;

  /** The process serves. Once it is proven, the deaths before do not count. */
  onReady(child: Pick<Child, 'state'>): void {
    this.#unserved = 0;
    setTimeout(() => {
      if (child.state === 'serving') this.#count = 0;
    }, QUICK_DEATH_MS).unref();
  }

  /** A process ended by itself. Returns the milliseconds to wait before the next fork; null if the process had lived long enough. */
  onDeath({ state, livedMs }: Pick<Child, 'state' | 'livedMs'>): number | null {
    if (state === 'starting') this.#unserved++;
    else if (livedMs >= QUICK_DEATH_MS) return null;
    return backoffMs(this.#count++, PAUSE, Math.random());
  }

  /** Why further forks are hopeless; null if they are not. @param last reason of the last death */
  hopeless(serving: readonly Pick<Child, 'livedMs'>[], last: string | number): string | null {
    if (this.#unserved < UNSERVED_DEATHS_MAX || serving.some(({ livedMs }) => livedMs >= QUICK_DEATH_MS)) return null;
    return `${UNSERVED_DEATHS_MAX} consecutive processes ended before they served (last: ${last})`;
  }
}
