/** Makes a change and waits until every running primary confirms that its processes have applied it. */
import { APPLIED_CHANNEL, LISTENER_NAME } from './connect/listen.ts';
import type { DatabasePool } from './connect/pool.ts';

const WAIT_MS = 1_000;

export class Changes {
  readonly #home: Pick<DatabasePool, 'listening'>;
  readonly #copy: () => Promise<void>;

  /** @param copy brings a change to the cells. Never rejects. */
  constructor(home: Pick<DatabasePool, 'listening'>, copy: () => Promise<void> = async () => {}) {
    this.#home = home;
    this.#copy = copy;
  }

  /**
   * Runs `work`, copies its change to the cells that answer, and waits for the confirmations. Rejects with DatabaseUnavailable, before
   * `work` runs, when they could not be received.
   * @param payload of the notification that the triggers send when `work` commits, e.g. `webhook:<id>`.
   * @param changed returns false for a result that means that nothing changed: then no notification is awaited.
   */
  announced<T>(payload: string, work: () => Promise<T>, changed: (result: T) => boolean = () => true): Promise<T> {
    let applied = 0;
    let onApplied: () => void = () => {};
    const confirmed = (what: string) => {
      if (what !== payload) return;
      applied++;
      onApplied();
    };
    return this.#home.listening(APPLIED_CHANNEL, confirmed, async (query) => {
      const [row] = await query<{ listeners: number }>({
        text: `select count(*)::int as listeners from pg_stat_activity
          where datname = current_database() and application_name = $1`,
        values: [LISTENER_NAME],
      });
      const { listeners } = row!;
      // The connection may have received an earlier change since it was used last.
      applied = 0;
      const result = await work();
      if (!changed(result)) return result;
      await this.#copy();
      if (applied < listeners)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, WAIT_MS);
          onApplied = () => {
            if (applied < listeners) return;
            clearTimeout(timer);
            resolve();
          };
        });
      return result;
    });
  }
}
