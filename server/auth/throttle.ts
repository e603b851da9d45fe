/**
 * How often a password may be tried: by address and by account, or by browser where that is known (device-cookies.ts). An account
 * that does not exist is throttled just the same. An address is charged for failures alone.
 */
import { createHash } from 'node:crypto';
import type { Database } from '../db/pool.ts';
import {
  countAccountAttempt,
  countAttempt,
  forgetAccountFailures,
  forgetAddressAttempt,
} from '../db/queries/sign-in-failures.ts';
import type { Exchange } from '../http/exchange.ts';

/** Failures of one client address: so many at once, and then one each so many seconds: 20 in 15 minutes. */
export const ADDRESS_LIMIT = { max: 20, secondsEach: 45 };
/** Failures in a row of one account, or of one known browser: so many at once, then after 30 s, 1 min, 2 min … 15 min. */
export const ACCOUNT_LIMIT = { free: 5, firstSeconds: 30, mostSeconds: 900 };

/** Key of an account by what names it; the table holds no addresses of people, not even mistyped ones. */
export function accountKey(name: string): string {
  return `account:${createHash('sha256').update(name.toLowerCase()).digest('hex')}`;
}

/** An attempt that was counted; it stays a failure unless it succeeds. */
export interface Attempt {
  succeeded(query: Database['query']): Promise<void>;
}

/**
 * Counts an attempt before its password is looked at, so that many at once are no way around; a number: seconds to wait, and
 * nothing was counted.
 * @param device the counter of a known browser, which alone counts then: it leaves the account's pause as it is.
 */
export async function attempt(
  database: Database,
  exchange: Exchange,
  account: string,
  device: string | null = null,
): Promise<Attempt | number> {
  if (device !== null) {
    const wait = await countAccountAttempt(database.query, device, ACCOUNT_LIMIT);
    return wait > 0 ? wait : { succeeded: (query) => forgetAccountFailures({ query }, device) };
  }
  const address = exchange.client.limitKey('ip');
  const wait = await countAttempt(database, { key: account, ...ACCOUNT_LIMIT }, { key: address, ...ADDRESS_LIMIT });
  if (wait > 0) return wait;
  return {
    // In the order of countAttempt, so that two never wait for each other.
    succeeded: async (query) => {
      await forgetAccountFailures({ query }, account);
      await forgetAddressAttempt({ query }, address);
    },
  };
}
