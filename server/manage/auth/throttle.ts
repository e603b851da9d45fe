/**
 * Limits password attempts by address and by account, or by browser if it has a device cookie (device-cookies.ts). An account
 * that does not exist is throttled in the same way. An address is charged for failures only.
 */
import { createHash } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { type Actor, systemActor } from '../../store/audit/actor.ts';
import { record } from '../../store/audit/record.ts';
import type { Database, Query } from '../../store/connect/pool.ts';
import {
  closeTallies,
  countAccountAttempt,
  countAttempt,
  forgetAccountFailures,
  forgetAddressAttempt,
  type TriedAccount,
  tallyFailure,
} from '../../store/queries/users/sign-in-failures.ts';

/** Failures of one client address: `max` at once, then one every `secondsEach`: 20 in 15 minutes. */
export const ADDRESS_LIMIT = { max: 20, secondsEach: 45 };
/** Consecutive failures of one account or one known browser: `free` at once, then after 30 s, 1 min, 2 min … 15 min. */
export const ACCOUNT_LIMIT = { free: 5, firstSeconds: 30, mostSeconds: 900 };

/** Throttle key of an account. Hashed, so that the table holds no email addresses, not even mistyped ones. */
export function accountKey(name: string): string {
  return `account:${createHash('sha256').update(name.toLowerCase()).digest('hex')}`;
}

/** A counted attempt; it remains a failure unless `succeeded` is called. */
export interface SignInAttempt {
  succeeded(query: Query): Promise<void>;
}

/**
 * Counts an attempt before its password is verified, so that concurrent attempts cannot bypass the limit. Returns the seconds to
 * wait if the limit is reached; the attempt is then not counted.
 * @param device counter of a known browser. Only this counter is used then; the account's pause is unchanged.
 */
export async function countSignIn(
  database: Database,
  exchange: Exchange,
  account: string,
  device: string | null = null,
): Promise<SignInAttempt | number> {
  if (device !== null) {
    const wait = await countAccountAttempt(database.query, device, ACCOUNT_LIMIT);
    return wait > 0 ? wait : { succeeded: (query) => forgetAccountFailures({ query }, device) };
  }
  const address = exchange.client.limitKey('ip');
  const wait = await countAttempt(database, { key: account, ...ACCOUNT_LIMIT }, { key: address, ...ADDRESS_LIMIT });
  if (wait > 0) return wait;
  return {
    // Same lock order as countAttempt, so that two transactions never deadlock.
    succeeded: async (query) => {
      await forgetAccountFailures({ query }, account);
      await forgetAddressAttempt({ query }, address);
    },
  };
}

/**
 * Accounts with their own tally within an hour; failures of further accounts share one tally. A tally makes at most three entries
 * an hour.
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
