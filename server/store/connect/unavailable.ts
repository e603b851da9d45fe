/**
 * The meaning of each SQLSTATE, for COPY and the pool: whether the database is unavailable, whether waiting helps, and which conflicts are
 * repeated.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { z } from 'zod';

/**
 * `session_ended`: the server closed the session. The statement in progress may have been committed.
 * `session_read_only`: nothing was stored. This session stays read-only; a new one may be able to write.
 * `server_busy`: nothing was stored. The server lacks a resource temporarily; the session is intact.
 * `partition_missing`: nothing was stored. Weir creates the partition (see retention/partitions.ts).
 * `data`: nothing was stored. The row is invalid and would be rejected again.
 */
type SqlStateKind = 'session_ended' | 'session_read_only' | 'server_busy' | 'partition_missing' | 'data';

/**
 * Prefixes of SQLSTATEs; the longest match applies. A SQLSTATE that is not listed means a bug in the statement.
 * @see https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const table: Record<string, readonly [kind: SqlStateKind, meaning: string]> = {
  '08': ['session_ended', 'connection exception; PgBouncer reports a lost server as 08P01'],
  '22': ['data', 'data exception'],
  '23': ['data', 'integrity constraint violation'],
  '23514': [
    'partition_missing',
    'no partition of relation found for row; also any CHECK, which Weir has checked before',
  ],
  '25006': ['session_read_only', 'default_transaction_read_only is on, or the server is a standby'],
  '25P03': ['session_ended', 'idle_in_transaction_session_timeout'],
  '25P04': ['session_ended', 'transaction_timeout'],
  '40001': ['server_busy', 'serialization failure'],
  '40P01': ['server_busy', 'deadlock detected'],
  '53': ['server_busy', 'disk full (53100), out of memory (53200), too many connections (53300)'],
  '55P03': ['server_busy', 'lock not available'],
  '57014': ['server_busy', 'query canceled: statement_timeout, or an administrator'],
  '57P': ['session_ended', 'shutdown (57P01), crash (57P02), starting up (57P03), database dropped (57P04)'],
  '58': ['server_busy', 'system error, such as an input or output error of the disk'],
};

const LONGEST = 5;

/** Undefined: not listed. An empty string is not a SQLSTATE: libpq reports a lost connection with it. */
export function sqlStateKind(sqlState: string): SqlStateKind | undefined {
  for (let length = LONGEST; length >= 2; length--) {
    const row = table[sqlState.slice(0, length)];
    if (row !== undefined) return row[0];
  }
  return undefined;
}

/** True: the server cannot run the statement now, and the same statement may succeed later. */
export function isOutage(sqlState: string): boolean {
  const kind = sqlStateKind(sqlState);
  return kind === 'session_ended' || kind === 'session_read_only' || kind === 'server_busy';
}

/** The database cannot be reached or cannot run the statement now; a retry may succeed. The cause is libpq's error. */
export class DatabaseUnavailable extends Error {
  /** SQLSTATE; undefined if the connection was lost, in which case the statement may have been committed. */
  readonly code: string | undefined;
  /** The cell that it is; undefined: home, or the only database. */
  readonly cell: { number: number; name: string } | undefined;

  constructor(cause: Error & { code?: string }, cell?: { number: number; name: string }) {
    super(cause.message.trim(), { cause });
    this.code = cause.code;
    this.cell = cell;
  }
}

/** Messages of limits of this process: on a statement (pg), and on the wait for a connection of a pool (pg-pool). */
export const STATEMENT_TIMEOUT = 'Query read timeout';
export const POOL_TIMEOUT = 'timeout exceeded when trying to connect';

/** A message of libpq, which may have several lines, as one. */
export function oneLine(message: string): string {
  return message.trim().replace(/\s+/g, ' ');
}

/**
 * Before a session exists, libpq reports a failure as text only, in English, because Node never sets a locale. What the server says in another
 * language counts as permanent.
 * @see https://www.postgresql.org/docs/current/libpq-connect.html
 */
const passing = [
  // No server listens, or the machine or its name is not there (yet).
  /Connection refused/,
  /No such file or directory\s+Is the server running/,
  /could not translate host name/,
  /No route to host/,
  /Network is unreachable/,
  /Host is down/,
  // A machine, network or server that hangs or fails in the middle.
  /timeout expired/,
  /Connection timed out/,
  new RegExp(POOL_TIMEOUT),
  new RegExp(STATEMENT_TIMEOUT),
  /Connection reset by peer/,
  /server closed the connection unexpectedly/,
  /Software caused connection abort/,
  /SSL SYSCALL error/,
  // With target_session_attrs: a standby that is not promoted yet.
  /session is read-only/,
  /server is in hot standby mode/,
  // The server's own words for 57P03 and 53300.
  /FATAL: {2}the database system is /,
  /FATAL: {2}sorry, too many clients already/,
  /FATAL: {2}remaining connection slots are reserved/,
];

/**
 * True: the database is unreachable, starting, read-only, or lacks a resource. False: waiting would not help, because the settings are refused
 * (password, database, certificate) or the schema does not fit. With several hosts, every host must fail in a passing way.
 */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof DatabaseUnavailable)) return false;
  if (error.code !== undefined) return isOutage(error.code);
  return hostsIn(error.message).every((text) => passing.some((pattern) => pattern.test(text)));
}

/** The part of a message of libpq that concerns each host. */
function hostsIn(message: string): string[] {
  return message.split(/\n(?=connection to server |could not translate host name )/);
}

/** Returns the answer if it has the form of the schema. Throws DatabaseUnavailable for any other. */
export function expected<T>(schema: z.ZodType<T>, answer: unknown): T {
  const { success, data } = schema.safeParse(answer);
  if (success) return data;
  throw new DatabaseUnavailable(new Error('the server does not answer as the database of Weir does'));
}

const DEADLOCK = '40P01';
const INTERNAL = 'XX000';
/** The statement waited for a row that was moved to another partition, or in a deadlock. */
const CONFLICTS: ReadonlySet<string | undefined> = new Set(['40001', DEADLOCK]);
/** Unique indexes at which one of two concurrent statements fails, see queries/claims/held.ts. */
const CONSTRAINTS: ReadonlySet<string | undefined> = new Set(['deliveries_begun']);
/**
 * Another session has just changed or dropped the table, schema or function. Postgres and Citus have no SQLSTATE for this (XX000), and do not
 * translate these messages.
 */
const SCHEMA_CHANGED = new RegExp(
  [
    'tuple concurrently (updated|deleted)',
    'cache lookup failed for ',
    'could not open relation with OID ',
    // Citus
    'relation with OID \\d+ does not exist',
    'could not find valid entry for shard ',
    ' is dropped by a concurrent operation',
  ].join('|'),
);
const CONFLICT_TRIES_MAX = 3;
/** Pause before the first repeat. After a deadlock, an immediate repeat took the lock before the other session, and met the same deadlock. */
const PAUSE_MS = 50;

/** Repeats `work` when it rejects because of a concurrent statement. What it did was rolled back. */
export async function repeatConflicts<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const { code, constraint, message } = error as Error & { code?: string; constraint?: string };
      const isChanged = code === INTERNAL && SCHEMA_CHANGED.test(message);
      const isConflict = CONFLICTS.has(code) || CONSTRAINTS.has(constraint) || isChanged;
      if (!isConflict || tries === CONFLICT_TRIES_MAX) throw error;
      if (code === DEADLOCK || isChanged) await delay(tries * PAUSE_MS);
    }
  }
}
