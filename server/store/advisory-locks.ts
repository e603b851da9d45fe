/** Locks on what is not a row: work that only one session at a time may do. */
import type { Database, Query, Statement } from './connect/pool.ts';

/** Postgres advisory locks that Weir takes, each until the end of its transaction. Listed in one table, so that every number is unique. */
export const advisoryLocks = {
  /** Changes to the schema and creation of partitions. */
  schema: 7_236_451,
  /** From reading the head of the audit log until the entry after it is committed. */
  audit: 7_236_452,
  /** Changes to the set of administrators. */
  administrators: 7_236_453,
  /**
   * Changes to agents and their subscriptions. Names of active agents are unique; and two changes of subscriptions, by webhook and by
   * agent, lock rows in different orders and could deadlock.
   */
  agents: 7_236_454,
  /** Writes to the ring of rejections, so that its limits are exact and writers cannot deadlock. */
  rejections: 7_236_455,
  /** Archiving an old partition, until it is dropped: one machine at a time. */
  archive: 7_236_459,
  /** The hourly maintenance: one machine at a time. */
  maintenance: 7_236_460,
  /** Running jobs: one machine at a time. */
  jobs: 7_236_461,
  /** Copies of configuration to a cell, taken in the cell: an older state must not follow a newer one. */
  copies: 7_236_467,
  /** Recording the current SECRETS_KEY. */
  secretsKeys: 7_236_458,
  /** Deciding which alerts begin and end: one machine at a time. */
  alerts: 7_236_466,
  /** Recording which issues are open: one process at a time. */
  issues: 7_236_468,
} as const;

/** Takes a lock. Waits while another session has it, up to the time limit of the statement. */
export async function takeLock(query: Query, lock: number, limit: Pick<Statement, 'timeoutMs'> = {}): Promise<void> {
  await query({ text: 'select pg_advisory_xact_lock($1)', values: [lock], ...limit });
}

/** Takes a lock unless another session has it. Returns false when another one has. */
export async function tryLock(query: Query, lock: number): Promise<boolean> {
  const text = 'select pg_try_advisory_xact_lock($1) as locked';
  const [row] = await query<{ locked: boolean }>({ text, values: [lock] });
  return row!.locked;
}

/**
 * Takes a lock for short work, unless another session has it. A machine that freezes for this long within the transaction loses its session,
 * and so the lock.
 */
export async function tryShortLock(query: Query, lock: number, pauseSecondsMax: number): Promise<boolean> {
  await query({ text: `set local idle_in_transaction_session_timeout = '${pauseSecondsMax}s'` });
  return tryLock(query, lock);
}

/**
 * Runs the work unless another machine has this lock. The lock belongs to an open transaction, which holds no snapshot: the lock of a
 * machine that is cut off ends with its session.
 */
export async function unlessElsewhere(
  database: Pick<Database, 'transaction'>,
  lock: number,
  work: () => Promise<void>,
): Promise<void> {
  await database.transaction(async (query) => {
    await query({ text: 'set local idle_in_transaction_session_timeout = 0' });
    if (await tryLock(query, lock)) await work();
  });
}
