/** Makes a change and waits until every running primary confirms that its processes have applied it. */
import pg from 'pg';
import { outliveClose, weirConninfo } from './connect/conninfo.ts';
import { APPLIED_CHANNEL, LISTENER_NAME } from './connect/listen.ts';
import { DatabaseUnavailable } from './connect/unavailable.ts';

/** A primary that does not confirm in time checks with the database by itself, see Directory. */
const WAIT_MS = 1_000;

/** Limit on the concurrent changes of one program: each takes its own connection. */
export const CHANGES_MAX = 2;

export class Changes {
  readonly #conninfo: string;
  readonly #copy: () => Promise<void>;
  #underWay = 0;
  readonly #waiting: (() => void)[] = [];

  /** @param copy brings a change to the cells. Never rejects. */
  constructor(conninfo: string, copy: () => Promise<void> = async () => {}) {
    this.#conninfo = conninfo;
    this.#copy = copy;
  }

  /**
   * Runs `work`, copies its change to the cells that answer, and waits for the confirmations.
   * @param payload of the notification that the triggers send when `work` commits, e.g. `webhook:<id>`.
   * @param changed returns false for a result that means that nothing changed: then no notification is awaited.
   */
  async announced<T>(
    payload: string,
    work: () => Promise<T>,
    changed: (result: T) => boolean = () => true,
  ): Promise<T> {
    while (this.#underWay >= CHANGES_MAX) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#underWay++;
    try {
      return await announced(this.#conninfo, payload, () => this.#copied(work, changed), changed);
    } finally {
      this.#underWay--;
      this.#waiting.shift()?.();
    }
  }

  async #copied<T>(work: () => Promise<T>, changed: (result: T) => boolean): Promise<T> {
    const result = await work();
    if (changed(result)) await this.#copy();
    return result;
  }
}

async function announced<T>(
  conninfo: string,
  payload: string,
  work: () => Promise<T>,
  changed: (result: T) => boolean,
): Promise<T> {
  const client = new (pg.native as typeof pg).Client({
    nativeConnectionString: weirConninfo(conninfo, 'weir-command'),
  } as pg.ClientConfig);
  // The connection was lost while waiting: `work` is complete or reports its own failure. End it at once, see ChangeListener.
  client.on('error', () => void client.end().catch(() => {}));
  await client.connect().catch((error) => Promise.reject(new DatabaseUnavailable(error)));
  try {
    await client.query(`listen ${APPLIED_CHANNEL}`);
    const { rows } = await client.query<{ count: number }>(
      `select count(*)::int as count from pg_stat_activity where datname = current_database() and application_name = $1`,
      [LISTENER_NAME],
    );
    const listeners = rows[0]!.count;
    let applied = 0;
    let appliedEverywhere: () => void = () => {};
    client.on('notification', (notification) => {
      if (notification.payload === payload && ++applied === listeners) appliedEverywhere();
    });
    const result = await work();
    if (changed(result) && applied < listeners)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, WAIT_MS);
        appliedEverywhere = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    return result;
  } finally {
    outliveClose(client);
    await client.end();
  }
}
