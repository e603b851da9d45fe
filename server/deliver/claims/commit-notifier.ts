/** Wakes the claims that wait for new deliveries: directly in this process, and in other processes by a NOTIFY outside the commit. */
import { randomUUID } from 'node:crypto';
import { ARRIVALS_CHANNEL } from '../../store/connect/listen.ts';
import type { Database } from '../../store/connect/pool.ts';
import { IdBatch, type WaitingClaims } from './waiting-claims.ts';

/**
 * Minimum time between two NOTIFYs. From commit to the handler of a claim in another process, at 100 events a second: 2.0 to 2.3 ms; with
 * 10 ms, when most events waited for a timer, 2.9 to 3.2, for the same processor time.
 */
const NOTIFY_GAP_MS = 5;
/** Maximum ids in one NOTIFY, whose payload has at most 7,999 bytes. A NOTIFY about more has no ids. */
const CONCERNED_MAX = 200;

/** Collects the webhooks and agents that commits concern, and wakes the claims that wait for them. */
export class CommitNotifier {
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

  /** Events of this webhook were stored, or this agent may claim again (room below `max_leased`, a freed key). */
  concerns(id: string): void {
    if (!this.#isWanted()) return;
    this.#waiting.concerns(id);
    this.#concerned.add(id);
  }

  /**
   * Handles a NOTIFY. Those of this process are ignored: its claims were woken directly.
   * @param payload name of the process, and ids of webhooks and agents; without ids, any agent may have work
   */
  arrived(payload: string): void {
    const [by, ids] = payload.split(' ');
    if (by === this.#name) return;
    if (ids === undefined) return this.#waiting.concernsAll();
    for (const id of ids.split(',')) this.#waiting.concerns(id);
  }

  #notify(ids: readonly string[] | null): void {
    const payload = ids === null ? this.#name : `${this.#name} ${ids.join(',')}`;
    // The commit of a NOTIFY need not wait for the disk or a standby: a lost NOTIFY delays claims by at most a second, because a query looks
    // for deliveries every second anyway.
    const text = `select set_config('synchronous_commit', 'off', true), pg_notify('${ARRIVALS_CHANNEL}', '${payload}')`;
    this.#database.query({ text }).catch(() => {});
  }
}
