/**
 * Wakes waiting claims. One query finds which of their agents have deliveries to claim. It runs after each notified commit, and
 * at least once a second: a lost notification, an expired lease or the end of a nack's delay costs at most one second.
 */
import type { Database } from '../db/pool.ts';
import { agentsWithWork } from '../db/queries/claim-deliveries.ts';
import type { Floors } from './floors.ts';

const EVERY_MS = 1_000;
/** Minimum time between two queries, whatever the number of commits. */
const GAP_MS = 5;
/** Interval of queries that ignore the floors, for deliveries below an agent's floor; see floors.ts. */
const EVERYWHERE_EVERY_MS = 15_000;

export class Arrivals {
  readonly #database: Database;
  readonly #floors: Floors;
  readonly #waiting = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | null = null;
  #dueAtMs = Number.POSITIVE_INFINITY;
  #lastMs = 0;
  #everywhereMs = 0;
  #asking = false;
  #closed = false;
  #heard = 0;

  constructor(database: Database, floors: Floors) {
    this.#database = database;
    this.#floors = floors;
  }

  /** Number of waiting claims. */
  get size(): number {
    let size = 0;
    for (const wakes of this.#waiting.values()) size += wakes.size;
    return size;
  }

  /** Number of notified commits. A claim reads it before its query, so that a commit between query and wait is not missed. */
  get heardSoFar(): number {
    return this.#heard;
  }

  /**
   * Resolves when the agent may have deliveries to claim, after `timeoutMs`, or when the caller ends the wait.
   * @param heardBefore `heardSoFar` from before the claim's query
   * @param giveUp gets the callback that ends the wait
   */
  wait(agentId: string, timeoutMs: number, heardBefore: number, giveUp: (wake: () => void) => void): Promise<void> {
    if (this.#closed) return Promise.resolve();
    return new Promise((resolve) => {
      const wakes = this.#waiting.get(agentId) ?? new Set();
      this.#waiting.set(agentId, wakes);
      const timer = setTimeout(() => wake(), timeoutMs);
      const wake = () => {
        clearTimeout(timer);
        wakes.delete(wake);
        if (wakes.size === 0 && this.#waiting.get(agentId) === wakes) this.#waiting.delete(agentId);
        resolve();
      };
      wakes.add(wake);
      giveUp(wake);
      if (this.#heard === heardBefore) this.#askWithin(EVERY_MS);
      else this.#askSoon();
    });
  }

  /** Reports a commit, of this process or another. */
  heard(): void {
    this.#heard++;
    if (this.#waiting.size > 0) this.#askSoon();
  }

  /** Wakes all waiting claims. Later calls of `wait` resolve immediately. */
  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    for (const wakes of [...this.#waiting.values()]) for (const wake of [...wakes]) wake();
  }

  #askSoon(): void {
    this.#askWithin(Math.max(0, this.#lastMs + GAP_MS - performance.now()));
  }

  /** One timer for all claims. A call can only make it fire earlier. */
  #askWithin(ms: number): void {
    const dueAtMs = performance.now() + ms;
    if (this.#closed || dueAtMs >= this.#dueAtMs) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#dueAtMs = dueAtMs;
    this.#timer = setTimeout(() => void this.#ask(), ms);
  }

  async #ask(): Promise<void> {
    this.#timer = null;
    this.#dueAtMs = Number.POSITIVE_INFINITY;
    if (this.#asking) return this.#askWithin(GAP_MS);
    this.#asking = true;
    this.#lastMs = performance.now();
    const everywhere = this.#lastMs >= this.#everywhereMs + EVERYWHERE_EVERY_MS;
    if (everywhere) this.#everywhereMs = this.#lastMs;
    const agents = [...this.#waiting.keys()].map((id) => ({
      id,
      claimableFrom: everywhere ? '-infinity' : this.#floors.forLook(id),
    }));
    // If the database is unavailable, the query runs again in a second. The claims keep waiting until their own timeout.
    const ready = await agentsWithWork(this.#database, agents).catch(() => []);
    this.#asking = false;
    if (everywhere) for (const agentId of ready) this.#floors.forget(agentId);
    for (const agentId of ready) for (const wake of [...(this.#waiting.get(agentId) ?? [])]) wake();
    if (this.#waiting.size > 0) this.#askWithin(EVERY_MS);
  }
}
