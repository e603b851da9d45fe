/** A COPY connection that comes back: connects, is lost, connects again with back-off, until it is closed for good. */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../net/backoff.ts';
import { CopyConnection, type CopyOutcome } from './copy.ts';
import { CopyEncoder } from './copy-rows.ts';

/** How many of them a process opens, see EventWriter. */
export const COPY_CONNECTIONS = 2;

/** An open transaction keeps Postgres from cleaning up: one that waits for data is ended after this long. */
const UNUSED_MS = 50;
const emptyCopy = new CopyEncoder().encode([]);
const RECONNECT = { firstMs: 100, maxMs: 5_000 };

export class CopyLink {
  readonly #conninfo: string;
  readonly #onChange: (reason: string) => void;
  #connection: CopyConnection | null = null;
  #connecting: Promise<void> | null = null;
  #stopped = false;
  /** Ends a COPY that was begun and got no data. */
  #unused: NodeJS.Timeout | undefined;
  #ending: Promise<unknown> | null = null;

  /** @param onChange told when the connection came up, and when it went away or could not be made, with libpq's reason. */
  constructor(conninfo: string, onChange: (reason: string) => void) {
    this.#conninfo = conninfo;
    this.#onChange = onChange;
  }

  get up(): boolean {
    return this.#connection !== null;
  }

  /** Resolves when the connection is up, or closed for good. */
  start(): Promise<void> {
    if (this.up || this.#stopped) return Promise.resolve();
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  /** One COPY, see CopyConnection.copyIn; one that takes longer than `timeoutMs` is a lost connection. */
  async copyIn(sql: string, data: Buffer, timeoutMs: number): Promise<CopyOutcome> {
    clearTimeout(this.#unused);
    const connection = this.#connection;
    if (connection === null) return { kind: 'lost', inDoubt: false, message: 'not connected' };
    const timer = setTimeout(() => connection.close(`no commit within ${timeoutMs} ms`), timeoutMs);
    if (this.#ending !== null) await this.#ending;
    const outcome = await connection.copyIn(sql, data);
    clearTimeout(timer);
    return outcome;
  }

  /** Begins the next COPY, so that its data need not wait for the server; without data it soon ends, empty. */
  begin(sql: string): void {
    const connection = this.#connection;
    if (connection === null || this.#ending !== null) return;
    connection.begin(sql);
    clearTimeout(this.#unused);
    this.#unused = setTimeout(() => {
      this.#ending = connection.copyIn(sql, emptyCopy).then(() => {
        this.#ending = null;
      });
    }, UNUSED_MS);
  }

  /** First column of a query's rows, as soon as the connection is up. Rejects after `timeoutMs` and when the query fails. */
  async column(sql: string, timeoutMs: number): Promise<string[]> {
    const deadline = delay(timeoutMs, null);
    await Promise.race([this.start(), deadline]);
    const connection = this.#connection;
    if (connection === null) throw new Error('not connected');
    const timer = setTimeout(() => connection.close(`no answer within ${timeoutMs} ms`), timeoutMs);
    return connection.column(sql).finally(() => clearTimeout(timer));
  }

  close(): void {
    this.#stopped = true;
    clearTimeout(this.#unused);
    this.#connection?.close();
  }

  async #connect(): Promise<void> {
    for (let attempt = 0; !this.#stopped; attempt++) {
      try {
        this.#connection = await CopyConnection.connect(this.#conninfo, (reason) => this.#onClosed(reason));
        if (this.#stopped) return this.#connection.close();
        return this.#onChange('');
      } catch (error) {
        if (attempt === 0) this.#onChange((error as Error).message.trim());
        await delay(backoffMs(attempt, RECONNECT, Math.random()));
      }
    }
  }

  #onClosed(reason: string): void {
    this.#connection = null;
    if (this.#stopped) return;
    this.#onChange(reason);
    void this.start();
  }
}
