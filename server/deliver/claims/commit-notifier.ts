/** Tells waiting claims of new deliveries: those of this process directly, and those of others by a NOTIFY outside the commit. */
import { randomUUID } from 'node:crypto';
import { ARRIVALS_CHANNEL } from '../../store/connect/listen.ts';
import type { Database } from '../../store/connect/pool.ts';
import { IdBatch, type WaitingClaims } from './waiting-claims.ts';

/**
 * Minimum time between two NOTIFYs. With 10 ms, at 100 events a second most of them waited for a timer: 2.9 to 3.2 ms from commit to handler when
 * the claim waits in another process, now 2.0 to 2.3, for the same processor time.
 */
const NOTIFY_GAP_MS = 5;
/** Ids in one NOTIFY, whose payload has at most 7,999 bytes. One of more has none. */
const CONCERNED_MAX = 200;

export class CommitNotifier {
  /** Names this process to the others. */
  readonly #name = randomUUID();
  readonly #database: Database;
  readonly #waiting: WaitingClaims;
  readonly #isWanted: () => boolean;
  readonly #concerned = new IdBatch(NOTIFY_GAP_MS, CONCERNED_MAX, (ids) => this.#notify(ids));

  /** @param isWanted false while there are no agents. */
  constructor(database: Database, waiting: WaitingClaims, isWanted: () => boolean) {
    this.#database = database;
    this.#waiting = waiting;
    this.#isWanted = isWanted;
  }

  /** Events of this webhook were stored, or this agent at its limit has room again. */
  concerns(id: string): void {
    if (!this.#isWanted()) return;
    this.#waiting.concerns(id);
    this.#concerned.add(id);
  }

  /**
   * A process has notified the others.
   * @param payload its name and, unless any agent may have work, ids of webhooks and agents: of this process's own, the claims here know already
   */
  arrived(payload: string): void {
    const [by, ids] = payload.split(' ');
    if (by === this.#name) return;
    if (ids === undefined) return this.#waiting.concernsAll();
    for (const id of ids.split(',')) this.#waiting.concerns(id);
  }

  #notify(ids: readonly string[] | null): void {
    const payload = ids === null ? this.#name : `${this.#name} ${ids.join(',')}`;
    // A lost NOTIFY delays claims by at most a second, because a query looks for them every second anyway. So its commit need not wait for
    // the disk or a standby.
    const text = `select set_config('synchronous_commit', 'off', true), pg_notify('${ARRIVALS_CHANNEL}', '${payload}')`;
    this.#database.query({ text }).catch(() => {});
  }
}
