/** A COPY connection that reconnects with back-off whenever it is lost, until it is closed. */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../../base/time/backoff.ts';
import { CopyConnection, type CopyOutcome } from './connection.ts';
import { CopyEncoder } from './rows.ts';

/** COPY connections per process, see GroupCommit. */
export const COPY_CONNECTIONS = 2;

/** An open transaction blocks vacuum: a COPY that waits for data longer than this is ended. */
const UNUSED_MS = 50;
const emptyCopy = new CopyEncoder().encode([]);
/** The maximum decides how soon writes resume after a failover. */
const RECONNECT = { firstMs: 100, maxMs: 1_000 };

export class CopyLink {
  readonly #conninfo: string;
  readonly #onChange: (reason: string) => void;
  #connection: CopyConnection | null = null;
  #connecting: Promise<void> | null = null;
  #stopped = false;
  /** Ends a COPY that was started and got no data. */
  #unused: NodeJS.Timeout | undefined;
  #ending: Promise<unknown> | null = null;

  /** @param onChange called when the connection is established, and when it is lost or fails, with libpq's reason. */
  constructor(conninfo: string, onChange: (reason: string) => void) {
    this.#conninfo = conninfo;
    this.#onChange = onChange;
  }

  get up(): boolean {
    return this.#connection !== null;
  }

  /** Resolves when the connection is established or permanently closed. */
  start(): Promise<void> {
    if (this.up || this.#stopped) return Promise.resolve();
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  /** Runs one COPY, see CopyConnection.copyIn. A COPY that takes longer than `timeoutMs` closes the connection and counts as lost. */
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

  /** Starts the next COPY before its data is ready, which saves a round trip. Without data it is ended empty after UNUSED_MS. */
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

  /** Runs statements once connected, see CopyConnection.run. Rejects after `timeoutMs` as well. */
  async run(sql: string, timeoutMs: number): Promise<string[]> {
    const deadline = delay(timeoutMs, null);
    await Promise.race([this.start(), deadline]);
    const connection = this.#connection;
    if (connection === null) throw new Error('not connected');
    const timer = setTimeout(() => connection.close(`no response within ${timeoutMs} ms`), timeoutMs);
    return connection.run(sql).finally(() => clearTimeout(timer));
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
