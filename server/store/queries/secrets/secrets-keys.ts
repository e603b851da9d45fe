/** The keys that SECRETS_KEY has had, and when each was replaced. */
import { advisoryLocks } from '../../advisory-locks.ts';
import type { Query } from '../../connect/pool.ts';

/** `replaced`: another key was in use before this call. */
type KeyChange = { kind: 'first' | 'same' } | { kind: 'replaced'; before: Buffer[] };

/**
 * Records the current key. Call in a transaction. A key that was never current before replaces all others now. A key that was current
 * before changes nothing unless `again` is set: machines are switched to a new key one after another, and a machine that still starts
 * with the old key must not change the time of the replacement.
 * @param previous fingerprint of SECRETS_KEY_PREVIOUS. Recorded as replaced now when nothing is recorded yet.
 * @param again makes the key current again, whatever was in use since.
 */
export async function recordKeys(
  query: Query,
  current: Buffer,
  previous: Buffer | null,
  { again }: { again: boolean },
): Promise<KeyChange> {
  await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.secretsKeys] });
  const rows = await query<{ fingerprint: Buffer; used: boolean; replaced: boolean }>({
    text: `select fingerprint, first_used_at is not null as used, replaced_at is not null as replaced from secrets_keys`,
  });
  const known = rows.find(({ fingerprint, used }) => used && fingerprint.equals(current));
  if (known !== undefined && !(known.replaced && again)) return { kind: 'same' };
  const before = await query<{ fingerprint: Buffer }>({
    text: 'update secrets_keys set replaced_at = now() where replaced_at is null and fingerprint <> $1 returning fingerprint',
    values: [current],
  });
  await query({
    text: `insert into secrets_keys as k (fingerprint, first_used_at) values ($1, now())
           on conflict (fingerprint) do update set first_used_at = coalesce(k.first_used_at, now()), replaced_at = null`,
    values: [current],
  });
  if (rows.length === 0 && previous !== null)
    await query({
      text: 'insert into secrets_keys (fingerprint, replaced_at) values ($1, now())',
      values: [previous],
    });
  if (before.length === 0) return { kind: 'first' };
  return { kind: 'replaced', before: before.map(({ fingerprint }) => fingerprint) };
}

/** Whether Weir was ever started with this key as SECRETS_KEY, or rotated to it. */
export async function wasKeyUsed({ query }: { query: Query }, fingerprint: Buffer): Promise<boolean> {
  const rows = await query({
    text: 'select from secrets_keys where fingerprint = $1 and first_used_at is not null',
    values: [fingerprint],
  });
  return rows.length > 0;
}

/** Seconds since a key was replaced, by the database's clock. Null: still in use; undefined: never in use. */
export async function readReplacedSeconds(
  { query }: { query: Query },
  fingerprint: Buffer,
): Promise<number | null | undefined> {
  const [row] = await query<{ seconds: number | null }>({
    name: 'read-replaced-key',
    text: 'select extract(epoch from clock_timestamp() - replaced_at)::float8 as seconds from secrets_keys where fingerprint = $1',
    values: [fingerprint],
  });
  return row?.seconds;
}

/** Whether a serving process on any machine is connected now. */
export async function isServerConnected({ query }: { query: Query }): Promise<boolean> {
  const rows = await query({
    text: `select from pg_stat_activity where application_name = 'weir-copy' and datname = current_database() limit 1`,
  });
  return rows.length > 0;
}
