/** Connections through libpq, and pools of them, for everything but COPY (../copy/connection.ts). */
import pg from 'pg';
import type NativeClient from 'pg-native';
import { outliveClose } from './conninfo.ts';
import { SETUP_TIMEOUT_MS, sessionSetup } from './session.ts';

const IDLE_TIMEOUT_MS = 30_000;
/** A connection keeps all its prepared statements, and claims add some each day: their texts name the day (queries/claims/lease.ts). */
const LIFETIME_SECONDS = 86_400;
/** A connection lost without a wake-up is detected within this time. */
const POLL_EVERY_MS = 250;
const SESSION_SETUP = sessionSetup();

/** The native client of pg, with the session settings of Weir and corrections of faults in pg and pg-native. */
export class LibpqClient extends (pg.native as typeof pg).Client {
  #polling: NodeJS.Timeout | undefined;

  constructor(config?: pg.ClientConfig & { nativeConnectionString?: string }) {
    super(config);
    const { native } = this as unknown as { native: NativeClient };
    keepReading(native);
    refuseBroken(native);
    const read = native._read;
    native._read = () => this.#read(native, read);
    // When the server closes a connection with unread bytes from us, no callback runs (see ../copy/connection.ts), and a query would wait
    // for its time limit. A timer therefore makes the connection read, as if its socket were readable.
    this.once('connect', () => {
      this.#polling = setInterval(() => native.pq.emit('readable'), POLL_EVERY_MS).unref();
    });
    // End it at once, whatever its user does: libpq has closed the socket, but libuv still watches its descriptor. The next socket with
    // that number would get no events, or abort the process (uv_poll_start on a handle that could not be created).
    this.on('error', () => void this.end().catch(() => {}));
  }

  /**
   * Reads what has arrived. libpq prints an error that is parsed while no statement runs. Such an error is therefore left unparsed, and the
   * next statement fails with it; a client that listens sends an empty statement.
   */
  #read(native: NativeClient, read: () => void): void {
    const { pq } = native;
    if (native._queryCallback !== undefined) return read();
    if (!pq.consumeInput()) return native._readError();
    if (this.listenerCount('notification') === 0) return;
    this.query('').catch((error) => native.emit('error', error));
    pq.isBusy();
    for (let notice = pq.notifies(); notice !== undefined; notice = pq.notifies()) native.emit('notification', notice);
  }

  override connect(): Promise<pg.Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    const connected = super.connect().then(() => this.#setUp());
    if (callback === undefined) return connected;
    connected.then(() => (callback as () => void)(), callback);
    return undefined;
  }

  async #setUp(): Promise<pg.Client> {
    try {
      await this.query({ text: SESSION_SETUP, query_timeout: SETUP_TIMEOUT_MS } as pg.QueryConfig);
      return this;
    } catch (error) {
      await this.end();
      throw error;
    }
  }

  override end(): Promise<void>;
  override end(callback: (error: Error) => void): void;
  override end(callback?: (error: Error) => void): Promise<void> | void {
    clearInterval(this.#polling);
    outliveClose(this);
    return callback === undefined ? super.end() : super.end(callback);
  }

  /**
   * Always true. Only the pool calls it, when its time limit is over, and would end a client that is not connected. libpq still connects in a
   * thread of libuv then; it used the ended client, and the process ended with `Must be connected to start reader`.
   */
  isConnected(): boolean {
    return true;
  }
}

/**
 * Keeps watching the socket while a statement is sent. pg-native stops before each statement, which takes three of its six calls into the
 * kernel. Only a statement that the socket does not take at once needs the stop.
 */
function keepReading(native: NativeClient): void {
  native._dispatchQuery = (pq, send, sent) => {
    // pg gives an error the SQLSTATE of the last result. A lost connection has no result, so clear that of the earlier statement.
    pq.clear();
    if (!pq.setNonBlocking(true)) return sent(new Error('Unable to set non-blocking to true'));
    if (!send()) return sent(new Error(pq.errorMessage() || 'Something went wrong dispatching the query'));
    const flushed = pq.flush();
    if (flushed === 0) return sent();
    native._stopReading();
    native._waitForDrain(pq, sent);
  };
}

/** Makes a value that does not have its declared type fail the statement. Otherwise such a value of a hostile server would end the process. */
function refuseBroken(native: NativeClient): void {
  const read = native._consumeQueryResults;
  native._consumeQueryResults = (pq) => {
    try {
      return read.call(native, pq);
    } catch {
      native._queryError = new Error('the server sent a value that cannot be read');
      return { rows: [] };
    }
  };
}

interface PoolLimits {
  connectionsMax: number;
  /** Limit on the time of a query, and on the wait for a connection. */
  timeoutMs: number;
  idleMs?: number;
}

/** Opens a pool, without connecting before the first query. */
export function openPool(
  conninfo: string,
  { connectionsMax, timeoutMs, idleMs = IDLE_TIMEOUT_MS }: PoolLimits,
): pg.Pool {
  return new (pg.native as typeof pg).Pool({
    Client: LibpqClient,
    max: connectionsMax,
    idleTimeoutMillis: idleMs,
    maxLifetimeSeconds: LIFETIME_SECONDS,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
    nativeConnectionString: conninfo,
  } as pg.PoolConfig);
}
