/** Ordinary queries: a small pool of pg-native connections. The hot path has a connection of its own, see copy.ts. */
import pg from 'pg';
import type NativeClient from 'pg-native';
import { weirConninfo } from './conninfo.ts';
import { outliveClose } from './outlive-close.ts';

/** A query that takes longer counts as lost, unless it says otherwise: the connection is dropped and the caller told. */
const QUERY_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 30_000;
/** A connection that was lost without a wake-up is noticed within this. */
const LOOK_EVERY_MS = 250;

/** The database cannot be reached, or not at this moment; asking again later may help. The cause is what libpq said. */
export class DatabaseUnavailable extends Error {
  constructor(cause: Error) {
    super(cause.message.trim(), { cause });
  }
}

/**
 * Runs one statement, or several in one transaction. Rows are plain objects; bytea and timestamps as node-postgres reads
 * them. Both reject with DatabaseUnavailable when it is the connection that fails, else with what the server said.
 */
export interface Database {
  query<Row extends object>(statement: Statement): Promise<Row[]>;
  transaction<T>(work: (query: Database['query']) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** With a name it is prepared once a connection. Buffers go in as hex, since pg-native sends text. */
interface Statement {
  name?: string;
  text: string;
  values?: unknown[];
  /**
   * `once`: with a name, planned when first used on a connection and never again, for statements whose best plan is the same
   * whatever the values are. Over partitions planning costs more than running (claim-deliveries.ts has figures), and Postgres
   * by itself plans anew for ever what it thinks costly. Not looked at in a transaction.
   */
  plan?: 'once';
  /** For what may rightly take longer than other queries. */
  timeoutMs?: number;
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
  const modes = new PlanModes();
  return {
    query: (statement) => runAlone(pool, modes, statement),
    transaction: (work) => inTransaction(pool, modes, work),
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
    outliveClose(client);
    clearInterval(lookouts.get(client));
    lookouts.delete(client);
  });
}

/** Which connections plan once. They change over only when another kind of statement comes along, a round trip each time. */
class PlanModes {
  readonly #once = new WeakSet<pg.PoolClient>();

  async set(client: pg.PoolClient, plan: Statement['plan']): Promise<void> {
    if (this.#once.has(client) === (plan === 'once')) return;
    await run(client, { text: `set plan_cache_mode to ${plan === 'once' ? 'force_generic_plan' : 'default'}` });
    if (plan === 'once') this.#once.add(client);
    else this.#once.delete(client);
  }
}

function runAlone<Row extends object>(pool: pg.Pool, modes: PlanModes, statement: Statement): Promise<Row[]> {
  return withClient(pool, async (client) => {
    await modes.set(client, statement.plan);
    return (await run<Row>(client, prepared(statement))).rows;
  });
}

async function inTransaction<T>(
  pool: pg.Pool,
  modes: PlanModes,
  work: (query: Database['query']) => Promise<T>,
): Promise<T> {
  const outcome = await withClient(pool, async (client) => {
    await modes.set(client, undefined);
    await run(client, { text: 'begin' });
    try {
      const query: Database['query'] = async <Row extends object>(statement: Statement) =>
        (await run<Row>(client, prepared(statement))).rows;
      const value = await work(query);
      await run(client, { text: 'commit' });
      return { value };
    } catch (error) {
      // A connection that cannot roll back is not given to anyone else: this rejects, and it is dropped.
      await client.query('rollback').catch(() => Promise.reject(error));
      return { error };
    }
  });
  if ('error' in outcome) throw outcome.error;
  return outcome.value;
}

/** What the server says of a statement has a SQLSTATE; classes 08, 53 and 57P are of the server itself. */
async function run<Row extends object>(client: pg.PoolClient, query: pg.QueryConfig): Promise<pg.QueryResult<Row>> {
  try {
    return await client.query<Row>(query);
  } catch (error) {
    const { code } = error as { code?: string };
    throw code === undefined || /^(08|53|57P)/.test(code) ? new DatabaseUnavailable(error as Error) : error;
  }
}

/** Lends a connection; when `work` rejects, or the connection is lost meanwhile, it is dropped. */
async function withClient<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect().catch((error) => Promise.reject(new DatabaseUnavailable(error)));
  let failure: Error | undefined;
  // What was under way is rejected too; but without a listener the event would end the process.
  const lost = (error: Error) => {
    failure = error;
  };
  client.on('error', lost);
  try {
    return await work(client);
  } catch (error) {
    failure = error as Error;
    throw error;
  } finally {
    client.off('error', lost);
    client.release(failure);
  }
}

/** Without values it goes as a simple query, which may hold several statements. */
function prepared({ name, text, values, timeoutMs }: Statement): pg.QueryConfig {
  const patience = timeoutMs === undefined ? {} : { query_timeout: timeoutMs };
  if (values === undefined) return { text, ...patience };
  const sent = values.map((value) => (Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : value));
  return { text, values: sent, ...(name === undefined ? {} : { name }), ...patience };
}
