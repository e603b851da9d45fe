/**
 * Failed sign-ins in the audit log. Entries cannot be changed later, so failures are tallied by account and hour. Recorded are
 * the first failure at once, the failure that pauses the account at once, and the count when the hour is over.
 */
import { type Actor, systemActor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import type { Database } from '../db/pool.ts';
import { closeTallies, type TriedAccount, tallyFailure } from '../db/queries/sign-in-failures.ts';
import { ACCOUNT_LIMIT } from './throttle.ts';

/**
 * Accounts with their own tally within an hour; failures of further accounts share one tally. A tally makes at most three entries
 * an hour.
 */
export const TALLIES_MAX = 1_000;
export const TALLY_SECONDS = 3_600;

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
