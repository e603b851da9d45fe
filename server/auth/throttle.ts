/**
 * Limits password attempts by address and by account, or by browser if it has a device cookie (device-cookies.ts). An account
 * that does not exist is throttled in the same way. An address is charged for failures only.
 */
import { createHash } from 'node:crypto';
import type { Database, Query } from '../db/pool.ts';
import {
  countAccountAttempt,
  countAttempt,
  forgetAccountFailures,
  forgetAddressAttempt,
} from '../db/queries/sign-in-failures.ts';
import type { Exchange } from '../http/exchange.ts';

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
export async function attempt(
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
