/** Failed sign-ins, counted in the database for all processes. An attempt counts before its password is looked at. */
import type { Database } from '../pool.ts';

/** Seconds to wait; 0: go on, and it counts as a failure until it is taken back. */
type Wait = Promise<number>;

/**
 * An attempt from an address: `max` at once, and from then on one each `secondsEach`.
 * @param key `ip:<address or /64>`
 */
export async function countAddressAttempt(
  { query }: Pick<Database, 'query'>,
  key: string,
  { max, secondsEach }: { max: number; secondsEach: number },
): Wait {
  const [row] = await query<{ wait: number }>({
    name: 'count-address-attempt',
    // What has leaked out since the last failure, in whole failures.
    text: `
      with counted as (
        insert into sign_in_failures as f (key, failures) values ($1, 1)
        on conflict (key) do update set failures = 1 + ${LEVEL}, last_failure_at = now()
        where ${LEVEL} < $2
        returning key)
      select case when exists (select from counted) then 0 else greatest(1, coalesce((
        select ceil($3::float8 - extract(epoch from now() - f.last_failure_at)) from sign_in_failures f where f.key = $1), 1)) end::int as wait`,
    values: [key, max, secondsEach],
  });
  return row!.wait;
}

/** Of two at once the later one may have the earlier clock. */
const LEVEL = `greatest(0, f.failures - floor(greatest(0, extract(epoch from now() - f.last_failure_at)) / $3::float8))::int`;

/**
 * An attempt on an account, whether there is such an account or not: the first `free` in a row at once, then after a wait of
 * `firstSeconds` since the last one that doubles each time, up to `mostSeconds`.
 * @param key `account:<hash>`
 */
export async function countAccountAttempt(
  { query }: Pick<Database, 'query'>,
  key: string,
  { free, firstSeconds, mostSeconds }: { free: number; firstSeconds: number; mostSeconds: number },
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

/** 30 doublings are more than any bound; more of them would leave the range of numbers. */
const PAUSE = 'make_interval(secs => least($4::float8, $3::float8 * power(2, least(30, f.failures - $2::int))))';

/** Takes back one counted attempt of an address. */
export async function forgetAddressAttempt({ query }: Pick<Database, 'query'>, key: string): Promise<void> {
  await query({ text: 'delete from sign_in_failures where key = $1 and failures = 1', values: [key] });
  await query({
    text: 'update sign_in_failures set failures = failures - 1 where key = $1 and failures > 1',
    values: [key],
  });
}

/** The next attempt on the account is the first again. */
export async function forgetAccountFailures({ query }: Pick<Database, 'query'>, key: string): Promise<void> {
  await query({ text: 'delete from sign_in_failures where key = $1', values: [key] });
}

/** Deletes the counts of which nothing was heard for a day; returns how many. */
export async function deleteOldFailures({ query }: Pick<Database, 'query'>): Promise<number> {
  const rows = await query({
    text: `delete from sign_in_failures where last_failure_at < now() - interval '1 day' returning 1`,
  });
  return rows.length;
}
