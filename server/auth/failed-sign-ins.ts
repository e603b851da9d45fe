/**
 * Failed sign-ins in the audit log. Entries cannot be changed afterwards, so failures are tallied by account and hour: the first
 * one is recorded at once, the one with which the account is paused too, and the count when the hour is over.
 */
import { type Actor, systemActor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import type { Database } from '../db/pool.ts';
import { closeTallies, type TriedAccount, tallyFailure } from '../db/queries/sign-in-tallies.ts';
import { ACCOUNT_LIMIT } from './throttle.ts';

/** Accounts that are tallied apart within an hour; failures of further ones share a tally. At most three entries a tally and hour. */
export const TALLIES_MAX = 1_000;
export const TALLY_SECONDS = 3_600;

const action = 'session.sign_in_failed';
/** Failures of a tally that are recorded when they happen. */
const isRecordedAtOnce = (failures: number) => failures === 1 || failures === ACCOUNT_LIMIT.free;

/**
 * Counts a failure, of an account that exists or not. It is not the change that an Idempotency-Key stands for: the actor's `confirm`
 * is left out.
 * @param key see accountKey.
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

/** Records the counts of the tallies whose hour is over; housekeeping calls it. */
export async function recordTallies(database: Database): Promise<void> {
  await database.transaction(async (query) => {
    for (const { failures, target, since } of await closeTallies(query, TALLY_SECONDS))
      if (!isRecordedAtOnce(failures)) await record(query, systemActor, { action, target, after: { failures, since } });
  });
}
