/** Failed sign-ins, counted in the database for all processes. An attempt is counted before its password is verified. */
import type { Database, Queries, Query } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';

/**
 * Limit on the failures of a key: `free` at once, then one every `secondsEach`, or after pauses that double from `firstSeconds` to
 * `mostSeconds`.
 */
export interface FailureLimit {
  /** `account:<hash>`, `device:<nonce>` of a known browser, or `ip:<address or /64>`. */
  key: string;
  free: number;
  /** One failure is forgotten every so many seconds, and a success takes back one. Absent: a success takes back all failures. */
  secondsEach?: number;
  firstSeconds?: number;
  mostSeconds?: number;
}

/**
 * Counts an attempt against each limit. Returns the seconds to wait; 0: it may proceed, and counts as a failure until it is taken back.
 * When one must wait, none is charged: rejected attempts on a paused account do not lock out other users at the same address, and a
 * locked-out address does not pause accounts.
 */
export function countAttempt(
  database: Pick<Database, 'transaction'>,
  limits: readonly FailureLimit[],
): Promise<number> {
  return database.transaction(async (query) => {
    await query({ text: 'savepoint uncounted' });
    for (const limit of limits) {
      const wait = await countAgainst(query, limit);
      if (wait === 0) continue;
      await query({ text: 'rollback to savepoint uncounted' });
      return wait;
    }
    return 0;
  });
}

/** SQL: number of failures forgotten since the last one. Not negative: of two concurrent attempts, the later may have the earlier time. */
const LEAKED = 'coalesce(floor(greatest(0, extract(epoch from now() - f.last_failure_at)) / $3::float8), 0)';
const LEVEL = `greatest(0, f.failures - ${LEAKED})::int`;
/** 30 doublings exceed any limit; more would overflow the number range. */
const PAUSE =
  'make_interval(secs => coalesce($3::float8, least($5::float8, $4::float8 * power(2, least(30, f.failures - $2::int)))))';

async function countAgainst(query: Query, limit: FailureLimit): Promise<number> {
  const { key, free, secondsEach = null, firstSeconds = null, mostSeconds = null } = limit;
  const [row] = await query<{ wait: number }>({
    name: 'count-attempt',
    // With $3 the time advances by whole intervals, so that taking an attempt back restores the previous count.
    text: `
      with counted as (
        insert into sign_in_failures as f (key, failures) values ($1, 1)
        on conflict (key) do update set failures = 1 + ${LEVEL},
          last_failure_at = case when $3::float8 is null or ${LEVEL} = 0 then now()
            else f.last_failure_at + make_interval(secs => $3::float8 * ${LEAKED}) end
        where ${LEVEL} < $2 or f.last_failure_at + ${PAUSE} <= now()
        returning key)
      select case when exists (select from counted) then 0 else greatest(1, coalesce((
        select ceil(extract(epoch from f.last_failure_at + ${PAUSE} - now())) from sign_in_failures f where f.key = $1), 1)) end::int as wait`,
    values: [key, free, secondsEach, firstSeconds, mostSeconds],
  });
  return row!.wait;
}

/** Takes back a counted attempt that succeeded. */
export async function takeBack(
  query: Query,
  { key, secondsEach }: Pick<FailureLimit, 'key' | 'secondsEach'>,
): Promise<void> {
  const ofBucket = secondsEach === undefined ? '' : 'and failures = 1';
  await query({ text: `delete from sign_in_failures where key = $1 ${ofBucket}`, values: [key] });
  if (secondsEach !== undefined)
    await query({
      text: 'update sign_in_failures set failures = failures - 1 where key = $1 and failures > 1',
      values: [key],
    });
}

/** Deletes counts whose last failure is more than a day old. Returns how many. */
export async function deleteOldFailures({ query }: Queries): Promise<number> {
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
