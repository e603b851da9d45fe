/** Requests that carried an Idempotency-Key, and their responses. */
import type { Database, Queries, Query } from '../../connect/pool.ts';

/** After this time an attempt counts as ended, so that a crashed process does not hold its key. */
const HELD_SECONDS = 60;
const KEPT_HOURS = 24;

/** An idempotency key of one user. */
export interface KeyOf {
  userId: string;
  key: string;
}

interface KeptAnswer {
  fingerprint: Buffer;
  /** The change was committed, but its attempt has ended without storing the response. */
  lost: boolean;
  answer: Buffer | null;
}

/** Takes a key that is new, expired, or left by an attempt that changed nothing. Returns undefined if it did, else the stored record. */
export async function takeKey(
  database: Database,
  { userId, key }: KeyOf,
  fingerprint: Buffer,
  attempt: string,
): Promise<KeptAnswer | undefined> {
  const taken = await database.query({
    text: `
      insert into idempotency_keys as k (user_id, key, fingerprint, attempt, held_until, expires_at)
      values ($1, $2, $3, $4, now() + make_interval(secs => ${HELD_SECONDS}), now() + make_interval(hours => ${KEPT_HOURS}))
      on conflict (user_id, key) do update
        set fingerprint = excluded.fingerprint, attempt = excluded.attempt, held_until = excluded.held_until,
          expires_at = excluded.expires_at, changed_at = null, answer = null
        where k.expires_at < now() or (k.changed_at is null and k.held_until < now())
      returning 1`,
    values: [userId, key, fingerprint, attempt],
  });
  if (taken.length > 0) return undefined;
  const [kept] = await database.query<KeptAnswer>({
    // Until `held_until` the attempt may be between its commit and its response.
    text: `
      select fingerprint, changed_at is not null and held_until < now() as lost, answer
      from idempotency_keys where user_id = $1 and key = $2`,
    values: [userId, key],
  });
  // The key was released between the two statements: the next attempt can take it.
  return kept ?? { fingerprint, lost: false, answer: null };
}

/** Marks the key as changed, in the transaction of the change. Returns false when another attempt holds the key: roll the change back. */
export async function markChanged(query: Query, attempt: string, { userId, key }: KeyOf): Promise<boolean> {
  const rows = await query({
    text: `update idempotency_keys set changed_at = now() where user_id = $1 and key = $2 and attempt = $3 returning 1`,
    values: [userId, key, attempt],
  });
  return rows.length > 0;
}

/** Stores the response, which is returned again until the key expires. */
export async function keepAnswer(
  database: Database,
  attempt: string,
  { userId, key }: KeyOf,
  answer: Buffer,
): Promise<void> {
  await database.query({
    text: `update idempotency_keys set changed_at = coalesce(changed_at, now()), answer = $4
           where user_id = $1 and key = $2 and attempt = $3`,
    values: [userId, key, attempt, answer],
  });
}

/** Releases a key after an attempt that changed nothing. Waits for a commit in progress; if it succeeds, the key is kept. */
export async function giveKeyBack(database: Database, attempt: string, { userId, key }: KeyOf): Promise<void> {
  await database.query({
    text: 'delete from idempotency_keys where user_id = $1 and key = $2 and attempt = $3 and changed_at is null',
    values: [userId, key, attempt],
  });
}

/** Deletes expired keys and their responses. */
export async function deleteExpiredAnswers({ query }: Queries): Promise<void> {
  await query({ text: 'delete from idempotency_keys where expires_at < now()' });
}
