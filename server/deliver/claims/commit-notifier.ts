/** Tells waiting claims of commits: those of this process at once, and those of others by a NOTIFY outside the commit. */
import { randomUUID } from 'node:crypto';
import { ARRIVALS_CHANNEL } from '../../store/connect/listen.ts';
import type { Database } from '../../store/connect/pool.ts';
import { after, type ClaimWaiters } from './waiters.ts';

/**
 * Minimum time between two NOTIFYs. With 10 ms, at 100 events a second most of them waited for a timer: 2.9 to 3.2 ms from commit to handler when
 * the claim waits in another process, now 2.0 to 2.3, for the same processor time.
 */
const NOTIFY_GAP_MS = 5;
/** Ids in one NOTIFY, whose payload has at most 7,999 bytes. One of more has none. */
const CONCERNED_MAX = 200;

/** Notifies waiting claims of commits: directly in this process, and in other processes by a NOTIFY outside the commit. */
export class CommitNotifier {
  /** Names this process to the others. */
  readonly #name = randomUUID();
  readonly #database: Database;
  readonly #waiters: ClaimWaiters;
  readonly #isWanted: () => boolean;
  /** Webhooks of commits, and agents that have room again; with more than CONCERNED_MAX, all are notified. */
  readonly #concerned = new Set<string>();
  #scheduled = false;
  #lastMs = 0;

  /** @param isWanted false while there are no agents. */
  constructor(database: Database, waiters: ClaimWaiters, isWanted: () => boolean) {
    this.#database = database;
    this.#waiters = waiters;
    this.#isWanted = isWanted;
  }

  /** Events of this webhook were stored: `committed` is called in the same turn. */
  stored(webhookId: string): void {
    if (!this.#isWanted()) return;
    this.#waiters.concerns(webhookId);
    if (this.#concerned.size <= CONCERNED_MAX) this.#concerned.add(webhookId);
  }

  /** Reports that an agent at its limit has room again. */
  freed(agentId: string): void {
    this.stored(agentId);
    this.committed();
  }

  /** Reports a commit of events, whose webhooks `stored` gets. The first one after a pause is notified immediately; the following ones share a NOTIFY. */
  committed(): void {
    if (!this.#isWanted()) return;
    this.#waiters.committed(false);
    if (this.#scheduled) return;
    this.#scheduled = true;
    after(Math.max(0, this.#lastMs + NOTIFY_GAP_MS - performance.now()), () => this.#notify());
  }

  /**
   * A process has notified the others of its commits.
   * @param payload its name and, unless any agent may have work, ids of webhooks and agents: of this process's own, the claims here know already
   */
  arrived(payload: string): void {
    const [by, ids] = payload.split(' ');
    if (by === this.#name) return;
    for (const id of ids?.split(',') ?? []) this.#waiters.concerns(id);
    this.#waiters.committed(ids === undefined);
  }

  #notify(): void {
    this.#scheduled = false;
    this.#lastMs = performance.now();
    const names = this.#concerned.size > 0 && this.#concerned.size <= CONCERNED_MAX;
    const payload = names ? `${this.#name} ${[...this.#concerned].join(',')}` : this.#name;
    this.#concerned.clear();
    // A lost NOTIFY delays claims by at most a second, because waiting claims query once a second anyway. So its commit need not wait for
    // the disk or a standby.
    const text = `select set_config('synchronous_commit', 'off', true), pg_notify('${ARRIVALS_CHANNEL}', '${payload}')`;
    this.#database.query({ text }).catch(() => {});
  }
}
