/** The deaths of serving processes since the start of the primary, in memory: the newest, and their number. */
import { DEATHS_KEPT, noDeaths, type ProcessDeath, type ProcessDeaths } from '../../model/process-deaths.ts';
import { isoTime } from '../../store/ids.ts';
import type { Member } from './member.ts';

export class DeathLog {
  #known = noDeaths;
  /** Deaths after which not all processes have served again, with the time since which they do not. */
  #open: { death: ProcessDeath; sinceMs: number }[] = [];

  get known(): ProcessDeaths {
    return this.#known;
  }

  /** Adds a process that has ended by itself. */
  add({ pid = 0, reason, livedMs }: Pick<Member, 'pid' | 'reason' | 'livedMs'>): void {
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
