/**
 * LISTEN on one direct connection (no transaction pooler between), by the primary for all its processes.
 * While it hears the database it says so every HEARTBEAT_MS; processes that miss that check for themselves.
 */
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { backoffMs } from '../net/backoff.ts';
import { weirConninfo } from './conninfo.ts';
import { outliveClose } from './outlive-close.ts';

/** Commands count the listeners by this name to know how many primaries must have heard of a change. */
export const LISTENER_NAME = 'weir-listener';
const CHANGES_CHANNEL = 'weir_changes';
export const APPLIED_CHANNEL = 'weir_applied';
/** Events were committed somewhere; the payload says nothing. */
export const ARRIVALS_CHANNEL = 'weir_arrivals';

const HEARTBEAT_MS = 300;
const HEARTBEAT_TIMEOUT_MS = 900;
const RECONNECT = { firstMs: 100, maxMs: 2_000 };

interface ListenerEvents {
  /** A payload of weir_changes, e.g. `webhook:<id>`; resolves when every process knows. */
  change(payload: string): Promise<void>;
  /** Events were committed, by any process of any machine. */
  arrived(): void;
  /** The database was heard just now. */
  alive(): void;
  /** The connection is gone; awaited before each try to have another. */
  lost(): Promise<void>;
  /** Listening (again): what changed in between is not known. */
  up(): void;
  down(reason: string): void;
}

export class ChangeListener {
  readonly #conninfo: string;
  readonly #events: ListenerEvents;
  #client: pg.Client | null = null;
  /** Settled when the last query is. */
  #asked: Promise<unknown> = Promise.resolve();
  #stopped = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(conninfo: string, events: ListenerEvents) {
    this.#conninfo = weirConninfo(conninfo, LISTENER_NAME);
    this.#events = events;
  }

  /** Listens until `stop`, through every loss of the connection. */
  start(): void {
    this.#loop = this.#run();
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

  /** One connection's life: returns when stopped, throws when it is lost. */
  async #listen(onUp: () => void): Promise<void> {
    const client = new (pg.native as typeof pg).Client({
      nativeConnectionString: this.#conninfo,
      query_timeout: HEARTBEAT_TIMEOUT_MS,
    } as pg.ClientConfig);
    this.#client = client;
    let lost: Error | null = null;
    client.on('error', (error) => {
      lost = error;
      // At once: libpq has closed the socket, libuv still watches its number, and another connection that is given the
      // same number would abort the program (uv_poll_start on a handle that could not be made).
      void client.end().catch(() => {});
    });
    client.on('notification', ({ channel, payload }) => {
      if (channel === ARRIVALS_CHANNEL) this.#events.arrived();
      else void this.#onChange(client, payload ?? '');
    });
    await client.connect();
    await client.query(`listen ${CHANGES_CHANNEL}; listen ${ARRIVALS_CHANNEL}`);
    this.#events.up();
    onUp();
    while (!this.#stopped) {
      await this.#ask(client, 'select 1');
      this.#events.alive();
      await delay(HEARTBEAT_MS);
      if (lost !== null) throw lost;
    }
  }

  /** Tells the command that made the change that it holds here. */
  async #onChange(client: pg.Client, payload: string): Promise<void> {
    try {
      await this.#events.change(payload);
      await this.#ask(client, 'select pg_notify($1, $2)', [APPLIED_CHANNEL, payload]);
    } catch {
      // The connection went away in between; the command stops waiting by itself, and `up` makes up for the change.
    }
  }

  /** One query at a time: changes come while the heartbeat is under way, and pg is about to stop queueing by itself. */
  #ask(client: pg.Client, text: string, values: string[] = []): Promise<unknown> {
    const asked = this.#asked.then(() => client.query(text, values));
    this.#asked = asked.catch(() => {});
    return asked;
  }

  async #end(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    if (client === null) return;
    outliveClose(client);
    await client.end().catch(() => {});
  }
}
