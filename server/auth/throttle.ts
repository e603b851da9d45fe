/** How often somebody may try a password, by address and by account. An account that does not exist is throttled just the same. */
import { createHash } from 'node:crypto';
import type { Database } from '../db/pool.ts';
import {
  countAccountAttempt,
  countAddressAttempt,
  forgetAccountFailures,
  forgetAddressAttempt,
} from '../db/queries/sign-in-failures.ts';
import type { Exchange } from '../http/exchange.ts';

/** Failures of one client address: so many at once, and then one each so many seconds: 20 in 15 minutes. */
export const ADDRESS_LIMIT = { max: 20, secondsEach: 45 };
/** Failures in a row of one account: so many at once, then after 30 s, 1 min, 2 min … 15 min. */
export const ACCOUNT_LIMIT = { free: 5, firstSeconds: 30, mostSeconds: 900 };

/** Key of an account by what names it; the table holds no addresses of people, not even mistyped ones. */
export function accountKey(name: string): string {
  return `account:${createHash('sha256').update(name.toLowerCase()).digest('hex')}`;
}

/** An attempt that was counted; it stays a failure unless it succeeds. */
export interface Attempt {
  succeeded(query: Database['query']): Promise<void>;
}

/** Counts an attempt before its password is looked at, so that many at once are no way around; a number: seconds to wait. */
export async function attempt(database: Database, exchange: Exchange, account: string): Promise<Attempt | number> {
  const addressKey = exchange.client.limitKey('ip');
  const wait =
    (await countAddressAttempt(database, addressKey, ADDRESS_LIMIT)) ||
    (await countAccountAttempt(database, account, ACCOUNT_LIMIT));
  if (wait > 0) return wait;
  return {
    succeeded: async (query) => {
      await forgetAddressAttempt({ query }, addressKey);
      await forgetAccountFailures({ query }, account);
    },
  };
}
