/** Ordinary queries: a small pool of pg-native connections. The hot path has a connection of its own, see copy.ts. */
import pg from 'pg';
import type NativeClient from 'pg-native';
import { weirConninfo } from './conninfo.ts';

/** A query that takes longer counts as lost: the connection is dropped and the caller told. */
const QUERY_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 30_000;
/** A connection that was lost without a wake-up is noticed within this. */
const LOOK_EVERY_MS = 250;

/** Runs one statement, or several in one transaction. Rows are plain objects; bytea and timestamps as node-postgres reads them. */
export interface Database {
  query<Row extends object>(statement: Statement): Promise<Row[]>;
  transaction<T>(work: (query: Database['query']) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** With a name it is prepared once a connection. Buffers go in as hex, since pg-native sends text. */
export interface Statement {
  name?: string;
  text: string;
  values?: unknown[];
}

/**
 * Opens no connection before the first query.
 * @param connectionsMax DB_POOL_MAX
 * @param onError a connection that lay idle was lost; the pool replaces it by itself.
 */
export function openDatabase(
  conninfo: string,
  {
    connectionsMax,
    applicationName,
    onError,
  }: { connectionsMax: number; applicationName: string; onError?: (error: Error) => void },
): Database {
  const pool = new (pg.native as typeof pg).Pool({
    max: connectionsMax,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
    connectionTimeoutMillis: QUERY_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    nativeConnectionString: weirConninfo(conninfo, applicationName),
  } as pg.PoolConfig);
  pool.on('error', (error) => onError?.(error));
  lookAfter(pool);
  return {
    query: async <Row extends object>(statement: Statement) => (await pool.query<Row>(prepared(statement))).rows,
    transaction: (work) => inTransaction(pool, work),
    close: () => pool.end(),
  };
}

/**
 * A connection that the server closes while bytes of ours lie unread wakes nobody (see copy.ts): its query would wait for
 * QUERY_TIMEOUT_MS. So every connection is made to look now and then, as if there were something to read.
 */
function lookAfter(pool: pg.Pool): void {
  const lookouts = new Map<pg.PoolClient, NodeJS.Timeout>();
  pool.on('connect', (client) => {
    const { pq } = (client as unknown as { native: NativeClient }).native;
    lookouts.set(client, setInterval(() => pq.emit('readable'), LOOK_EVERY_MS).unref());
  });
  pool.on('remove', (client) => {
    clearInterval(lookouts.get(client));
    lookouts.delete(client);
  });
}

async function inTransaction<T>(pool: pg.Pool, work: (query: Database['query']) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  const query = async <Row extends object>(statement: Statement) => (await client.query<Row>(prepared(statement))).rows;
  let failure: Error | undefined;
  try {
    await client.query('begin');
    const result = await work(query);
    await client.query('commit');
    return result;
  } catch (error) {
    failure = error as Error;
    // A connection that cannot roll back is not given to anyone else.
    await client.query('rollback').then(
      () => {
        failure = undefined;
      },
      () => {},
    );
    throw error;
  } finally {
    client.release(failure);
  }
}

/** Without values it goes as a simple query, which may hold several statements. */
function prepared({ name, text, values }: Statement): pg.QueryConfig {
  if (values === undefined) return { text };
  const sent = values.map((value) => (Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : value));
  return { text, values: sent, ...(name === undefined ? {} : { name }) };
}
