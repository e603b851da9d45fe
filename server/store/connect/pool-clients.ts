/** The pool of pg with clients over libpq, and what both need beside each other. */
import pg from 'pg';
import type NativeClient from 'pg-native';
import { outliveClose } from './conninfo.ts';

const IDLE_TIMEOUT_MS = 30_000;
/** A connection keeps each prepared statement: with the days of claims (queries/claims/lease.ts), some more each day. */
const LIFETIME_SECONDS = 86_400;
/** A connection lost without a wake-up is detected within this time. */
const POLL_EVERY_MS = 250;

/**
 * The pool ends a client that is not connected after its time limit. libpq still connects then, in a thread of libuv, and has a limit of
 * its own (connect_timeout). After a machine had stood still for longer than both, the connection was made, its ended client was used, and
 * the process ended: `Must be connected to start reader`.
 */
class PoolClient extends (pg.native as typeof pg).Client {
  constructor(config?: pg.ClientConfig) {
    super(config);
    keepReading((this as unknown as { native: NativeClient }).native);
  }

  /** Asked by the pool when the time limit is over, and by nothing else. */
  isConnected(): boolean {
    return true;
  }
}

/**
 * pg-native stops to watch the socket before each statement and begins again after it, which takes three of the six calls into the kernel
 * of a short statement. Only a statement that the socket does not take at once needs that: libuv watches for one thing at a time.
 */
function keepReading(native: NativeClient): void {
  native._dispatchQuery = (pq, send, sent) => {
    if (!pq.setNonBlocking(true)) return sent(new Error('Unable to set non-blocking to true'));
    if (!send()) return sent(new Error(pq.errorMessage() || 'Something went wrong dispatching the query'));
    const flushed = pq.flush();
    if (flushed === 0) return sent();
    native._stopReading();
    native._waitForDrain(pq, sent);
  };
}

/**
 * Opens a pool, without connecting before the first query.
 * @param timeoutMs of a query, and of the wait for a connection
 */
export function openPool(
  conninfo: string,
  { connectionsMax, timeoutMs }: { connectionsMax: number; timeoutMs: number },
): pg.Pool {
  const pool = new (pg.native as typeof pg).Pool({
    Client: PoolClient,
    max: connectionsMax,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
    maxLifetimeSeconds: LIFETIME_SECONDS,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
    nativeConnectionString: conninfo,
  } as pg.PoolConfig);
  pollConnections(pool);
  return pool;
}

/**
 * When the server closes a connection with unread bytes from us, no callback runs (see ../copy/connection.ts), and a query would wait for
 * QUERY_TIMEOUT_MS. A timer therefore makes every connection read, as if its socket were readable.
 */
function pollConnections(pool: pg.Pool): void {
  const timers = new Map<pg.PoolClient, NodeJS.Timeout>();
  pool.on('connect', (client) => {
    const { pq } = (client as unknown as { native: NativeClient }).native;
    timers.set(client, setInterval(() => pq.emit('readable'), POLL_EVERY_MS).unref());
  });
  pool.on('remove', (client) => {
    outliveClose(client);
    clearInterval(timers.get(client));
    timers.delete(client);
  });
}
