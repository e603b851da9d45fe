/**
 * Ordinary queries: a small pool of pg-native connections, which use libpq. The JavaScript client of pg has no list of hosts with
 * target_session_attrs (failover), no key=value form, no service file, and is not faster (bench/NOTES.md).
 */
import type pg from 'pg';
import { openPool } from './client.ts';
import { weirConninfo } from './conninfo.ts';
import type { Place } from './place.ts';
import { SessionRenewal } from './session.ts';
import { DatabaseUnavailable, isOutage, repeatConflicts, sqlStateKind } from './unavailable.ts';

/** Default query timeout. On timeout the query counts as lost: the connection is closed and the call rejects. */
const QUERY_TIMEOUT_MS = 10_000;
/** Limit on the concurrent calls of `listening`, see Changes: each has a connection beside those of the pool. */
export const LISTENING_MAX = 2;
/** Every listening session is woken by each NOTIFY of the database, so one that is not used ends soon. */
const LISTENING_IDLE_MS = 5_000;

/**
 * Runs one statement. Rows are plain objects; bytea and timestamps are parsed by node-postgres. Rejects with DatabaseUnavailable if the
 * connection or the server fails, otherwise with the server's error.
 */
export type Query = <Row extends object>(statement: Statement<Row>) => Promise<Row[]>;

/** Runs statements, each for itself or in a transaction that is open. */
export interface Queries {
  query: Query;
}

export interface TransactionOptions extends Pick<Statement, 'plan'> {
  /** It is part of a larger transaction, which alone can be repeated. */
  isPart?: boolean;
}

/** As Query; both methods are repeated after a conflict with another transaction. */
export interface Database extends Queries {
  transaction<T>(work: (query: Query) => Promise<T>, options?: TransactionOptions): Promise<T>;
  close(): Promise<void>;
}

export interface DatabasePool extends Database {
  /**
   * Runs `work` while a connection beside those of the pool listens on a channel. Rejects with DatabaseUnavailable when none can be had in
   * time. A connection that is lost later does not end `work`, which then gets no more payloads.
   */
  listening<T>(channel: string, onPayload: (payload: string) => void, work: (query: Query) => Promise<T>): Promise<T>;
}

/** A named statement is prepared once per connection. Buffers are sent as hex, since pg-native sends text. */
export interface Statement<Row extends object = object> {
  name?: string;
  text: string;
  values?: unknown[];
  /** Where it runs when there are cells; the Database of a single server ignores it. */
  place?: Place<Row>;
  /**
   * `once`: a named statement is planned at its first use on a connection and never again, for statements whose best plan does not depend
   * on the values: over partitions, planning costs more than execution (bench/NOTES.md). In a transaction the option of the transaction
   * applies.
   * `keyed`: as `once`, for statements that find all rows by an index. A plan made for an empty table stays while it grows: a claim scanned
   * the whole table. So only nested loops over indexes are left to the planner.
   */
  plan?: 'once' | 'keyed';
  /** Overrides the default timeout. */
  timeoutMs?: number;
}

interface PoolOptions {
  /** DB_POOL_MAX. */
  connectionsMax: number;
  applicationName: string;
  /** False: the database must not be used yet, and every call rejects with DatabaseUnavailable. */
  isUsable?: () => boolean;
  /** Called when an idle connection is lost; the pool replaces it. */
  onError?: (error: Error) => void;
  /** Called with the milliseconds that a query waited for its connection. */
  onWaited?: (ms: number) => void;
}

/** Opens a pool, without connecting before the first query. */
export function openDatabase(
  conninfo: string,
  { connectionsMax, applicationName, isUsable = () => true, onError = () => {}, onWaited = () => {} }: PoolOptions,
): DatabasePool {
  const sessionsOf = (pool: pg.Pool, onWaited: (ms: number) => void): Sessions => {
    const renewal = new SessionRenewal<pg.PoolClient>(() => performance.now());
    pool.on('error', onError);
    pool.on('connect', (client) => renewal.opened(client));
    return { pool, modes: new PlanModes(), renewal, isUsable, onWaited };
  };
  const open = (limits: { connectionsMax: number; idleMs?: number }) =>
    openPool(weirConninfo(conninfo, applicationName), { timeoutMs: QUERY_TIMEOUT_MS, ...limits });
  const sessions = sessionsOf(open({ connectionsMax }), onWaited);
  const listeners = sessionsOf(open({ connectionsMax: LISTENING_MAX, idleMs: LISTENING_IDLE_MS }), () => {});
  return {
    query: (statement) => runAlone(sessions, statement),
    transaction: (work, { plan, isPart = false } = {}) => {
      const run = () => inTransaction(sessions, work, plan);
      return isPart ? run() : repeatConflicts(run);
    },
    listening: (channel, onPayload, work) => whileListening(listeners, channel, onPayload, work),
    close: async () => void (await Promise.all([sessions.pool.end(), listeners.pool.end()])),
  };
}

interface Sessions {
  pool: pg.Pool;
  modes: PlanModes;
  renewal: SessionRenewal<pg.PoolClient>;
  isUsable: () => boolean;
  onWaited: (ms: number) => void;
}

const OFF_WHEN_KEYED = ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin', 'sort'];

/** Tracks how connections plan. A connection switches mode, at the cost of a round trip, only when the kind of statement changes. */
class PlanModes {
  readonly #modes = new WeakMap<pg.PoolClient, Statement['plan']>();

  async set(client: pg.PoolClient, plan: Statement['plan']): Promise<void> {
    if (this.#modes.get(client) === plan) return;
    const methods = OFF_WHEN_KEYED.map((name) => `set enable_${name} to ${plan === 'keyed' ? 'off' : 'default'}`);
    const mode = `set plan_cache_mode to ${plan === undefined ? 'default' : 'force_generic_plan'}`;
    await run(client, { text: [mode, ...methods].join('; ') });
    this.#modes.set(client, plan);
  }
}

function runAlone<Row extends object>(sessions: Sessions, statement: Statement<Row>): Promise<Row[]> {
  return repeatConflicts(() =>
    withClient(sessions, async (client) => {
      // A statement without values keeps no plan. NOTIFYs between claims would otherwise switch the mode of a connection back and
      // forth.
      if (statement.values !== undefined) await sessions.modes.set(client, statement.plan);
      return (await run<Row>(client, prepared(statement))).rows;
    }),
  );
}

async function inTransaction<T>(
  sessions: Sessions,
  work: (query: Query) => Promise<T>,
  plan: Statement['plan'],
): Promise<T> {
  const outcome = await withClient(sessions, async (client) => {
    await sessions.modes.set(client, plan);
    await run(client, { text: 'begin' });
    try {
      const query: Query = async <Row extends object>(statement: Statement<Row>) =>
        (await run<Row>(client, prepared(statement))).rows;
      const value = await work(query);
      await run(client, { text: 'commit' });
      return { value };
    } catch (error) {
      // A connection that cannot roll back must not be reused: this rejects, and the connection is closed.
      await client.query('rollback').catch(() => Promise.reject(error));
      if (isReadOnly(error)) sessions.renewal.readOnly(client);
      return { error };
    }
  });
  if ('error' in outcome) throw outcome.error;
  return outcome.value;
}

function whileListening<T>(
  sessions: Sessions,
  channel: string,
  onPayload: (payload: string) => void,
  work: (query: Query) => Promise<T>,
): Promise<T> {
  return withClient(sessions, async (client) => {
    const onMessage = (message: pg.Notification) => onPayload(message.payload ?? '');
    client.on('notification', onMessage);
    try {
      await run(client, { text: `listen ${channel}` });
      return await work(async (statement) => (await run(client, prepared(statement))).rows as never[]);
    } finally {
      client.off('notification', onMessage);
    }
  });
}

/** Runs a query. The SQLSTATE of a server error tells whether the statement or the server is at fault. */
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

/** Takes a connection from the pool. Closes connections opened before the server was last found read-only. */
async function acquire({ pool, renewal, isUsable, onWaited }: Sessions): Promise<pg.PoolClient> {
  if (!isUsable()) throw new DatabaseUnavailable(new Error('the primary has not prepared the database yet'));
  const startedMs = performance.now();
  for (;;) {
    const client = await pool.connect().catch((error) => Promise.reject(new DatabaseUnavailable(error)));
    if (renewal.isCurrent(client)) {
      onWaited(performance.now() - startedMs);
      return client;
    }
    client.release(true);
  }
}

/** Whether the connection can serve the next statement after this error. Else it is closed: a prepared statement may be outdated (0A000). */
function isIntact(client: pg.PoolClient, error: unknown): boolean {
  const kind = sqlStateKind((error as { code?: string }).code ?? '');
  return kind !== undefined && kind !== 'session_ended' && client.getTransactionStatus() === 'I';
}

/** Runs `work` with a connection. Closes it if the connection is lost or is not intact after `work` rejects. */
async function withClient<T>(sessions: Sessions, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await acquire(sessions);
  let failure: Error | undefined;
  const lost = (error: Error) => {
    failure = error;
  };
  client.on('error', lost);
  try {
    return await work(client);
  } catch (error) {
    if (isReadOnly(error)) sessions.renewal.readOnly(client);
    if (!isIntact(client, error)) failure = error as Error;
    throw error;
  } finally {
    client.off('error', lost);
    client.release(failure);
  }
}

/** Without values the statement is sent as a simple query, which may contain several statements. */
function prepared<Row extends object>({ name, text, values, timeoutMs }: Statement<Row>): pg.QueryConfig {
  const timeout = timeoutMs === undefined ? {} : { query_timeout: timeoutMs };
  if (values === undefined) return { text, ...timeout };
  const sent = values.map((value) => (Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : value));
  return { text, values: sent, ...(name === undefined ? {} : { name }), ...timeout };
}
