/** Failed sign-ins by account and hour, the source of the counts in the audit log. */
import type { Query } from '../pool.ts';
import { isoText } from './sql.ts';

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
