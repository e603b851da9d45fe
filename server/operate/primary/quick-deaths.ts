/**
 * Processes that end soon after their start, one after the other: forks pause for longer after each. The supervisor gives up when
 * UNSERVED_DEATHS_MAX in a row ended before they served. A process that has served does not count: what a client sent may have ended it.
 * While a proven process serves, replacements are retried without limit.
 */
import { backoffMs } from '../../base/time/backoff.ts';
import type { Member } from './member.ts';

/** A process that ends before it serves, or this soon after its start, suggests that its replacement will end too. One that serves for longer is proven. */
const QUICK_DEATH_MS = 3_000;
const UNSERVED_DEATHS_MAX = 10;
const PAUSE = { firstMs: 100, maxMs: 5_000 };

export class QuickDeaths {
  #count = 0;
  /** Processes in a row that ended before they served. */
  #unserved = 0;

  /** The process serves. Once it is proven, the deaths before do not count. */
  onReady(member: Pick<Member, 'state'>): void {
    this.#unserved = 0;
    setTimeout(() => {
      if (member.state === 'serving') this.#count = 0;
    }, QUICK_DEATH_MS).unref();
  }

  /** A process ended by itself. Returns the milliseconds to wait before the next fork; null if the process had lived long enough. */
  onDeath({ state, livedMs }: Pick<Member, 'state' | 'livedMs'>): number | null {
    if (state === 'starting') this.#unserved++;
    else if (livedMs >= QUICK_DEATH_MS) return null;
    return backoffMs(this.#count++, PAUSE, Math.random());
  }

  /** Why further forks are hopeless; null if they are not. @param last reason of the last death */
  hopeless(serving: readonly Pick<Member, 'livedMs'>[], last: string | number): string | null {
    if (this.#unserved < UNSERVED_DEATHS_MAX || serving.some(({ livedMs }) => livedMs >= QUICK_DEATH_MS)) return null;
    return `${UNSERVED_DEATHS_MAX} consecutive processes ended before they served (last: ${last})`;
  }
}
