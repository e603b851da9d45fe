/**
 * LISTEN on one connection, held by the primary for all its processes.
 * While the database answers, the primary sends a heartbeat every HEARTBEAT_MS; processes that miss it check the database themselves.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../../base/time/backoff.ts';
import { LibpqClient } from './client.ts';
import { weirConninfo } from './conninfo.ts';
import type { DatabasePool, Queries } from './pool.ts';

/** Commands count the listeners by this name to know how many primaries must confirm a change. */
export const LISTENER_NAME = 'weir-listener';
const CHANGES_CHANNEL = 'weir_changes';
export const APPLIED_CHANNEL = 'weir_applied';
/** Events were committed; the payload names the process and their webhooks, see CommitNotifier. */
export const ARRIVALS_CHANNEL = 'weir_arrivals';

/**
 * Passes a payload to every process, which may be lost: the commit waits neither for the disk nor for a standby. Changes that must arrive go
 * through `Changes`.
 */
export async function notifyEveryProcess({ query }: Queries, payload: string): Promise<void> {
  const text = `select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`;
  await query({ text, values: [CHANGES_CHANNEL, payload] });
}

const HEARTBEAT_MS = 300;
const HEARTBEAT_TIMEOUT_MS = 900;
/** Without an answer for this long, the database counts as down: three heartbeats have timed out. */
const ANSWERS_MS = 3_000;
const RECONNECT = { firstMs: 100, maxMs: 1_000 };

interface ListenerEvents {
  /**
   * A payload of weir_changes, e.g. `webhook:<id>`, or `call:<key>` of a cancelled call of MCP; resolves when every process has applied the
   * change.
   */
  change(payload: string): Promise<void>;
  /** A process of any machine stored events or freed agents. @param by the payload, see CommitNotifier.arrived */
  arrived(by: string): void;
  /** The database has just answered. */
  alive(): void;
  /** The connection was lost; awaited before each reconnection attempt. */
  lost(): Promise<void>;
  /** Listening (again): changes made while disconnected are unknown. */
  up(): void;
  down(reason: string): void;
}

/** The connection of a primary that listens for changes and arrivals. Calls `events` until `stop`. */
export class ChangeListener {
  readonly #conninfo: string;
  readonly #events: ListenerEvents;
  #client: LibpqClient | null = null;
  #asked: Promise<unknown> = Promise.resolve();
  #stopped = false;
  /** Monotonic; null before the first answer. */
  #answeredMs: number | null = null;
  #loop: Promise<void> = Promise.resolve();

  constructor(conninfo: string, events: ListenerEvents) {
    this.#conninfo = weirConninfo(conninfo, LISTENER_NAME);
    this.#events = events;
  }

  /** Listens until `stop`, and reconnects whenever the connection is lost. */
  start(): void {
    this.#loop = this.#run();
  }

  /** False while the database has not answered for ANSWERS_MS. True before the first answer, because the state is still unknown. */
  get answers(): boolean {
    return this.#answeredMs === null || performance.now() - this.#answeredMs < ANSWERS_MS;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (!this.#stopped) {
      try {
        await this.#listen(() => {
          failures = 0;
        });
      } catch (error) {
        if (failures === 0) this.#events.down((error as Error).message.trim());
      }
      await this.#end();
      if (this.#stopped) return;
      await this.#events.lost();
      await delay(backoffMs(failures++, RECONNECT, Math.random()));
    }
  }

  /** Runs one connection: returns when stopped, throws when the connection is lost. */
  async #listen(onUp: () => void): Promise<void> {
    const client = new LibpqClient({
      nativeConnectionString: this.#conninfo,
      query_timeout: HEARTBEAT_TIMEOUT_MS,
    });
    this.#client = client;
    let lost: Error | null = null;
    client.on('error', (error) => {
      lost ??= error;
    });
    client.on('notification', ({ channel, payload }) => {
      if (channel === ARRIVALS_CHANNEL) this.#events.arrived(payload ?? '');
      else void this.#onChange(client, payload ?? '');
    });
    await client.connect();
    await client.query(`listen ${CHANGES_CHANNEL}; listen ${ARRIVALS_CHANNEL}`);
    this.#events.up();
    onUp();
    while (!this.#stopped) {
      await this.#ask(client, 'select 1').catch((error) => Promise.reject(lost ?? error));
      this.#answeredMs = performance.now();
      this.#events.alive();
      await delay(HEARTBEAT_MS);
      if (lost !== null) throw lost;
    }
  }

  /** Applies a change and confirms it to the command that made it. */
  async #onChange(client: LibpqClient, payload: string): Promise<void> {
    try {
      await this.#events.change(payload);
      await this.#ask(client, 'select pg_notify($1, $2)', [APPLIED_CHANNEL, payload]);
    } catch {
      // The change was not applied, or the connection was lost: the command stops waiting on its own timeout. `up` covers changes
      // missed by a lost connection; cells that could not be read are read again each second.
    }
  }

  /** Runs one query at a time. When one fails the connection counts as lost: after its time limit it still runs, and no other can be sent. */
  #ask(client: LibpqClient, text: string, values: string[] = []): Promise<unknown> {
    const asked = this.#asked.then(() => client.query(text, values));
    this.#asked = asked.catch((error) => void client.emit('error', error));
    return asked;
  }

  async #end(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    if (client === null) return;
    await client.end().catch(() => {});
  }
}

/** How long a change waits for its confirmations. */
const WAIT_MS = 1_000;

/** Makes changes, each of which waits until every running primary confirms that its processes have applied it. */
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
