/** A database that cannot be used now, which of its failures are worth waiting for, and conflicts, which are repeated at once. */
import { setTimeout as delay } from 'node:timers/promises';
import type { z } from 'zod';
import { isOutage } from './sql-states.ts';

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
  /timeout exceeded when trying to connect/,
  /Query read timeout/,
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
 * True: the database is unreachable, starting, read-only, or lacks a resource. False: it refuses what the settings say (password, database,
 * certificate), or the schema does, and waiting would not help. With several hosts, every host must fail in a passing way.
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

/** Returns an answer of this form. Throws DatabaseUnavailable for any other. */
export function expected<T>(schema: z.ZodType<T>, answer: unknown): T {
  const { success, data } = schema.safeParse(answer);
  if (success) return data;
  throw new DatabaseUnavailable(new Error('the server does not answer as the database of Weir does'));
}

const DEADLOCK = '40P01';
/** The statement waited for a row that was moved to another partition, or in a deadlock. */
const CONFLICTS: ReadonlySet<string | undefined> = new Set(['40001', DEADLOCK]);
/** Unique indexes at which one of two concurrent statements fails, see queries/claims/held.ts. */
const CONSTRAINTS: ReadonlySet<string | undefined> = new Set(['deliveries_begun']);
const CONFLICT_TRIES_MAX = 3;
/** After a deadlock, before the first repeat: a repeat at once took the lock before the other session, in the same deadlock. */
const PAUSE_MS = 50;

/** Repeats `work` when it rejects because of a concurrent statement. What it did was rolled back. */
export async function repeatConflicts<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const { code, constraint } = error as { code?: string; constraint?: string };
      if (!(CONFLICTS.has(code) || CONSTRAINTS.has(constraint)) || tries === CONFLICT_TRIES_MAX) throw error;
      if (code === DEADLOCK) await delay(tries * PAUSE_MS);
    }
  }
}
