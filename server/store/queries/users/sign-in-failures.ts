/** Failed sign-ins, counted in the database for all processes. An attempt is counted before its password is verified. */
import type { Database, Query } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';

/** Seconds to wait. 0: the attempt may proceed, and counts as a failure until it is taken back. */
type Wait = Promise<number>;

interface AccountLimit {
  free: number;
  firstSeconds: number;
  mostSeconds: number;
}
interface AddressLimit {
  max: number;
  secondsEach: number;
}

/**
 * Counts an attempt on an account from an address. When either must wait, neither is charged: rejected attempts on a paused account do
 * not lock out other users at the same address, and a locked-out address does not pause accounts.
 */
export function countAttempt(
  database: Pick<Database, 'transaction'>,
  account: AccountLimit & { key: string },
  address: AddressLimit & { key: string },
): Wait {
  return database.transaction(async (query) => {
    await query({ text: 'savepoint uncounted' });
    const accountWait = await countAccountAttempt(query, account.key, account);
    if (accountWait > 0) return accountWait;
    const addressWait = await countAddressAttempt(query, address.key, address);
    if (addressWait > 0) await query({ text: 'rollback to savepoint uncounted' });
    return addressWait;
  });
}

/**
 * Counts an attempt from an address: `max` at once, then one per `secondsEach`.
 * @param key `ip:<address or /64>`
 */
async function countAddressAttempt(query: Query, key: string, { max, secondsEach }: AddressLimit): Wait {
  const [row] = await query<{ wait: number }>({
    name: 'count-address-attempt',
    // The clock advances by whole failures, so that taking an attempt back restores the previous count.
    text: `
      with counted as (
        insert into sign_in_failures as f (key, failures) values ($1, 1)
        on conflict (key) do update set failures = 1 + ${LEVEL},
          last_failure_at = case ${LEVEL} when 0 then now()
            else f.last_failure_at + make_interval(secs => $3::float8 * ${LEAKED}) end
        where ${LEVEL} < $2
        returning key)
      select case when exists (select from counted) then 0 else greatest(1, coalesce((
        select ceil($3::float8 - extract(epoch from now() - f.last_failure_at)) from sign_in_failures f where f.key = $1), 1)) end::int as wait`,
    values: [key, max, secondsEach],
  });
  return row!.wait;
}

/** Whole failures that have leaked out since the clock. Not negative: of two concurrent attempts, the later may have the earlier time. */
const LEAKED = 'floor(greatest(0, extract(epoch from now() - f.last_failure_at)) / $3::float8)';
const LEVEL = `greatest(0, f.failures - ${LEAKED})::int`;

/**
 * Counts an attempt on an account, whether the account exists or not. The first `free` in a row are allowed at once. After that the
 * wait since the last attempt is `firstSeconds`, doubled on each attempt, up to `mostSeconds`.
 * @param key `account:<hash>`, or `device:<nonce>` of a known browser
 */
export async function countAccountAttempt(
  query: Query,
  key: string,
  { free, firstSeconds, mostSeconds }: AccountLimit,
): Wait {
  const [row] = await query<{ wait: number }>({
    name: 'count-account-attempt',
    text: `
      with counted as (
        insert into sign_in_failures as f (key, failures) values ($1, 1)
        on conflict (key) do update set failures = f.failures + 1, last_failure_at = now()
        where f.failures < $2 or f.last_failure_at + ${PAUSE} <= now()
        returning key)
      select case when exists (select from counted) then 0 else greatest(1, coalesce((
        select ceil(extract(epoch from f.last_failure_at + ${PAUSE} - now())) from sign_in_failures f where f.key = $1), 1)) end::int as wait`,
    values: [key, free, firstSeconds, mostSeconds],
  });
  return row!.wait;
}

/** 30 doublings exceed any limit; more would overflow the number range. */
const PAUSE = 'make_interval(secs => least($4::float8, $3::float8 * power(2, least(30, f.failures - $2::int))))';

/** Takes back one counted attempt of an address. */
export async function forgetAddressAttempt({ query }: Pick<Database, 'query'>, key: string): Promise<void> {
  await query({ text: 'delete from sign_in_failures where key = $1 and failures = 1', values: [key] });
  await query({
    text: 'update sign_in_failures set failures = failures - 1 where key = $1 and failures > 1',
    values: [key],
  });
}

/** Resets the failures of an account. */
export async function forgetAccountFailures({ query }: Pick<Database, 'query'>, key: string): Promise<void> {
  await query({ text: 'delete from sign_in_failures where key = $1', values: [key] });
}

/** Deletes counts whose last failure is more than a day old. Returns how many. */
export async function deleteOldFailures({ query }: Pick<Database, 'query'>): Promise<number> {
  const rows = await query({
    text: `delete from sign_in_failures where last_failure_at < now() - interval '1 day' returning 1`,
  });
  return rows.length;
}

/** The account of the attempt, as named in the audit log. */
export interface TriedAccount {
  kind: 'user';
  /** Null: no user with this name can sign in with a password. */
  id: string | null;
  name: string;
}

/** Shared tally for further accounts once the limit on tallies is reached. */
const OTHERS: TriedAccount = { kind: 'user', id: null, name: 'other accounts' };

/** Counts one failure. Returns the count of its tally and the account of the tally. */
export async function tallyFailure(
  query: Query,
  key: string,
  account: TriedAccount,
  talliesMax: number,
): Promise<{ failures: number; target: TriedAccount }> {
  const [row] = await query<{ failures: number; target: TriedAccount }>({
    text: `
      insert into sign_in_tallies as t (key, target)
      select case when own then $1 else 'others' end, case when own then $2::json else $3::json end
      from (select exists (select from sign_in_tallies where key = $1)
                or (select count(*) from sign_in_tallies) < $4 as own) as room
      on conflict (key) do update set failures = t.failures + 1
      returning failures, target`,
    values: [key, JSON.stringify(account), JSON.stringify(OTHERS), talliesMax],
  });
  return row!;
}

/** Deletes the tallies that are at least `seconds` old and returns them. */
export function closeTallies(
  query: Query,
  seconds: number,
): Promise<{ failures: number; target: TriedAccount; since: string }[]> {
  return query({
    text: `delete from sign_in_tallies where started_at <= now() - make_interval(secs => $1)
           returning failures, target, ${isoText('started_at')} as since`,
    values: [seconds],
  });
}
