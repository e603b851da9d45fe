/**
 * Limits on tries of passwords, at sign-in and where a signed-in user confirms a change: by client address and by account, or by browser if it
 * has a device cookie (device-cookies.ts). An account that does not exist is limited in the same way. Only failures count for an address.
 */
import { createHash } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { type Problem, problemLater, type Result } from '../../base/http/problem.ts';
import { type Actor, record, systemActor } from '../../store/audit/record.ts';
import type { Database, Query } from '../../store/connect/pool.ts';
import {
  closeTallies,
  countAttempt,
  type TriedAccount,
  takeBack,
  tallyFailure,
} from '../../store/queries/users/sign-in-failures.ts';
import type { findPasswordUser } from '../../store/queries/users/users.ts';
import type { Hasher, Passwords } from './password-hash.ts';

/** Failures of one client address: 20 in 15 minutes. */
export const ADDRESS_LIMIT = { free: 20, secondsEach: 45 };
/** Consecutive failures of one account or one known browser: `free` at once, then after 30 s, 1 min, 2 min … 15 min. */
export const ACCOUNT_LIMIT = { free: 5, firstSeconds: 30, mostSeconds: 900 };

/** Throttle key of an account. Hashed, so that the table holds no email addresses, not even mistyped ones. */
export function accountKey(name: string): string {
  return `account:${createHash('sha256').update(name.toLowerCase()).digest('hex')}`;
}

type PasswordUser = NonNullable<Awaited<ReturnType<typeof findPasswordUser>>>;

interface Tried {
  /** Undefined: no user signs in by this name. The same work is done. */
  user: PasswordUser | undefined;
  /** See accountKey. */
  key: string;
  /** Counter of a known browser. Only this counter is used then; the account's pause is unchanged. */
  device: string | null;
  actor: Actor;
  /** As the audit log names it. */
  account: TriedAccount;
}

export interface PasswordAttempt<T> {
  find: () => Promise<Tried>;
  password: string;
  /** Called with a password that fits. Null: the user has changed since it was read. */
  use: (user: PasswordUser, succeeded: (query: Query) => Promise<void>, hasher: Hasher) => Promise<T | null>;
  failed: Problem;
}

/**
 * Tries a password within the limits. The attempt is counted before, so that concurrent attempts cannot bypass a limit, and remains a failure
 * unless `use` calls `succeeded`.
 */
export async function tryPassword<T>(
  { database, passwords }: { database: Database; passwords: Passwords },
  exchange: Exchange,
  { find, password, use, failed }: PasswordAttempt<T>,
): Promise<Result<T>> {
  const outcome = await passwords.admit(async (hasher): Promise<Result<T>> => {
    const { user, key, device, actor, account } = await find();
    // Limits are locked in this order everywhere, also in `succeeded`, so that two transactions never deadlock.
    const limits =
      device === null
        ? [
            { key, ...ACCOUNT_LIMIT },
            { key: exchange.client.limitKey('ip'), ...ADDRESS_LIMIT },
          ]
        : [{ key: device, ...ACCOUNT_LIMIT }];
    const wait = await countAttempt(database, limits);
    if (wait > 0) return problemLater('sign_in_limited', wait);
    const succeeded = async (query: Query) => {
      for (const limit of limits) await takeBack(query, limit);
    };
    const fits = await hasher.verify(user?.passwordHash ?? null, password);
    const value = user !== undefined && fits ? await use(user, succeeded, hasher) : null;
    if (value !== null) return { kind: 'done', value };
    await recordFailure(database, actor, key, account);
    return failed;
  });
  return outcome ?? problemLater('sign_in_busy', 1);
}

/**
 * Maximum accounts with a tally of their own within TALLY_SECONDS; failures of further accounts share one tally. A tally writes at most
 * three audit entries.
 */
export const TALLIES_MAX = 1_000;
export const TALLY_SECONDS = 3_600;

/**
 * Audit entries cannot be changed later, so failures are tallied by account and hour. Recorded are the first failure at once, the
 * failure that pauses the account at once, and the count when the hour is over.
 */
const action = 'session.sign_in_failed';
/** Failures of a tally that are recorded immediately. */
const isRecordedAtOnce = (failures: number) => failures === 1 || failures === ACCOUNT_LIMIT.free;

/**
 * Counts a failure, whether or not the account exists. The failure is not the change that an Idempotency-Key refers to, so the
 * actor's `confirm` is left out.
 * @param key see accountKey
 */
export async function recordFailure(
  database: Database,
  { confirm: _, ...actor }: Actor,
  key: string,
  account: TriedAccount,
): Promise<void> {
  await database.transaction(async (query) => {
    const { failures, target } = await tallyFailure(query, key, account, TALLIES_MAX);
    if (isRecordedAtOnce(failures)) await record(query, actor, { action, target, after: { failures } });
  });
}

/** Records the counts of the tallies whose hour is over. Called by the hourly maintenance. */
export async function recordTallies(database: Database): Promise<void> {
  await database.transaction(async (query) => {
    for (const { failures, target, since } of await closeTallies(query, TALLY_SECONDS))
      if (!isRecordedAtOnce(failures)) await record(query, systemActor, { action, target, after: { failures, since } });
  });
}
