/** What a SQLSTATE means for the server and the session. One table for COPY and the pool. */

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
