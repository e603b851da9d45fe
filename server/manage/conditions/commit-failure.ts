/** Why Postgres does not commit an event, and what to do: for the condition `database` and for `weir doctor`. */
import type { CommitFailure } from '../../store/commit-probe.ts';

interface Cause {
  /** About Postgres: `its disk is full`. */
  finding: string;
  fix: string;
}

/** `said`: the message of the server or of libpq, with the SQLSTATE. */
type Explained = Cause & { said: string };

/** By prefix of the SQLSTATE; the longest match applies. */
const causes: Readonly<Record<string, Cause>> = {
  '08': {
    finding: 'the connection is lost',
    fix: 'check that Postgres runs, and the network between it and Weir; Weir reconnects by itself',
  },
  '23514': {
    finding: 'a partition for today is missing',
    fix: 'look for partitions_failed in the log: it has the reason; Weir creates the partition by itself when it can',
  },
  '25006': {
    finding: 'it accepts no writes, as a standby or because default_transaction_read_only is on',
    fix: 'point DATABASE_URL at the primary server, or reset default_transaction_read_only of the server, the database and the role',
  },
  '42501': {
    finding: 'the database user may not write to the tables of Weir',
    fix: 'make it the owner of the tables, or grant insert, update and delete on them',
  },
  '53': {
    finding: 'it lacks a resource',
    fix: 'see the log of Postgres; Weir stores events again by itself when Postgres commits',
  },
  '53100': {
    finding: 'its disk is full',
    fix: 'free space on the disk of the Postgres server, or enlarge it; Weir stores events again by itself',
  },
  '53200': {
    finding: 'it is out of memory',
    fix: 'give the Postgres server more memory, or lower its work_mem and max_connections',
  },
  '53300': {
    finding: 'it has no connection left',
    fix: 'raise max_connections, lower WORKERS or DB_POOL_MAX, or close connections of other clients',
  },
  '55P03': {
    finding: 'another session holds a lock on the tables of events',
    fix: 'end that session: pg_locks and pg_stat_activity show it, usually a backup or a transaction that was left open',
  },
  '57014': {
    finding: 'it cancels the statements of Weir',
    fix: 'find who cancels them: another session (pg_cancel_backend), or query_timeout of a pooler',
  },
  '57P': {
    finding: 'it is starting or stopping',
    fix: 'wait until it has started, and see its log if it does not',
  },
  '58': {
    finding: 'it cannot read or write its files',
    fix: 'check the disk of the Postgres server, and see its log',
  },
};

/** Messages of a server that refuses a connection, for which libpq gives no SQLSTATE. */
const refusals: readonly (readonly [RegExp, sqlState: string])[] = [
  [/connection slots are reserved|too many clients already|too many connections for/, '53300'],
  [/the database system is (starting up|shutting down|in recovery mode|not yet accepting connections)/, '57P03'],
  [/No space left on device/, '53100'],
];

/** Explains why a server refuses connections; null: the message names none of these causes. @param message of libpq */
export function explainRefusedConnection(message: string): Explained | null {
  const sqlState = refusals.find(([said]) => said.test(message))?.[1];
  return sqlState === undefined ? null : explainCommitFailure({ sqlState, reason: message });
}

const silent: Cause = {
  finding: 'it does not answer',
  fix: 'check that Postgres runs and is not blocked, and the network between it and Weir; Weir reconnects by itself',
};

const LONGEST = 5;

/** Explains why commits fail, by the SQLSTATE; without one, the server does not answer. */
export function explainCommitFailure({ sqlState, reason }: CommitFailure): Explained {
  if (sqlState === null) return { ...silent, said: reason };
  const said = `${sqlState}: ${reason}`;
  for (let length = LONGEST; length >= 2; length--) {
    const cause = causes[sqlState.slice(0, length)];
    if (cause !== undefined) return { ...cause, said };
  }
  return { finding: 'it reports an error', fix: 'see the log of Postgres', said };
}
