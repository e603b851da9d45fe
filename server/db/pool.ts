/** Ordinary queries: a small pool of pg-native connections. The hot path has a connection of its own, see copy.ts. */
import pg from 'pg';
import type NativeClient from 'pg-native';
import { weirConninfo } from './conninfo.ts';
import { outliveClose } from './outlive-close.ts';
import { SessionRenewal } from './session-renewal.ts';
import { isOutage, sqlStateKind } from './sql-states.ts';

/** A query that takes longer counts as lost, unless it says otherwise: the connection is dropped and the caller told. */
const QUERY_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 30_000;
/** A connection that was lost without a wake-up is noticed within this. */
const LOOK_EVERY_MS = 250;

/** The database cannot be reached or cannot do this now; asking again later may help. The cause is what libpq said. */
export class DatabaseUnavailable extends Error {
  /** SQLSTATE; undefined when the connection broke, and then the statement may have been committed. */
  readonly code: string | undefined;

  constructor(cause: Error & { code?: string }) {
    super(cause.message.trim(), { cause });
    this.code = cause.code;
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
 * @param onWaited a query got its connection after so many milliseconds.
 * @param onError a connection that lay idle was lost; the pool replaces it by itself.
 */
export function openDatabase(
  conninfo: string,
  {
    connectionsMax,
    applicationName,
    onError,
    onWaited,
  }: {
    connectionsMax: number;
    applicationName: string;
    onError?: (error: Error) => void;
    onWaited?: (ms: number) => void;
  },
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
  const sessions: Sessions = {
    pool,
    modes: new PlanModes(),
    renewal: new SessionRenewal(() => performance.now()),
    onWaited: onWaited ?? (() => {}),
  };
  pool.on('connect', (client) => sessions.renewal.opened(client));
  return {
    query: (statement) => runAlone(sessions, statement),
    transaction: (work) => inTransaction(sessions, work),
    close: () => pool.end(),
  };
}

interface Sessions {
  pool: pg.Pool;
  modes: PlanModes;
  renewal: SessionRenewal<pg.PoolClient>;
  onWaited: (ms: number) => void;
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

function runAlone<Row extends object>(sessions: Sessions, statement: Statement): Promise<Row[]> {
  return withClient(sessions, async (client) => {
    await sessions.modes.set(client, statement.plan);
    return (await run<Row>(client, prepared(statement))).rows;
  });
}

async function inTransaction<T>(sessions: Sessions, work: (query: Database['query']) => Promise<T>): Promise<T> {
  const outcome = await withClient(sessions, async (client) => {
    await sessions.modes.set(client, undefined);
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
      if (isReadOnly(error)) sessions.renewal.readOnly(client);
      return { error };
    }
  });
  if ('error' in outcome) throw outcome.error;
  return outcome.value;
}

/** An error of the server has a SQLSTATE, which says whether the statement or the server is at fault. */
async function run<Row extends object>(client: pg.PoolClient, query: pg.QueryConfig): Promise<pg.QueryResult<Row>> {
  try {
    return await client.query<Row>(query);
  } catch (error) {
    const { code } = error as { code?: string };
    throw code === undefined || isOutage(code) ? new DatabaseUnavailable(error as Error) : error;
  }
}

function isReadOnly(error: unknown): boolean {
  return error instanceof DatabaseUnavailable && sqlStateKind(error.code ?? '') === 'session_read_only';
}

/** A connection of the pool; those that were opened before the server was last found read-only are closed on the way. */
async function borrow({ pool, renewal, onWaited }: Sessions): Promise<pg.PoolClient> {
  const startedMs = performance.now();
  for (;;) {
    const client = await pool.connect().catch((error) => Promise.reject(new DatabaseUnavailable(error)));
    if (renewal.mayUse(client)) {
      onWaited(performance.now() - startedMs);
      return client;
    }
    client.release(true);
  }
}

/** Lends a connection. It is dropped when `work` rejects or the connection is lost, except for a session that is read-only. */
async function withClient<T>(sessions: Sessions, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await borrow(sessions);
  let failure: Error | undefined;
  // What was under way is rejected too; but without a listener the event would end the process.
  const lost = (error: Error) => {
    failure = error;
  };
  client.on('error', lost);
  try {
    return await work(client);
  } catch (error) {
    if (isReadOnly(error)) sessions.renewal.readOnly(client);
    else failure = error as Error;
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
