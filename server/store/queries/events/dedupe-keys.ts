/** The deduplication keys of a webhook, on their way from one cell to another. */
import { z } from 'zod';
import { expected } from '../../connect/expected.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';

/** Keys copied in one statement. */
const AT_A_TIME = 10_000;

const keysSchema = z.array(
  z.object({ key: z.hex().describe('in hex'), event_id: z.guid(), expires_at: z.iso.datetime() }),
);
type DedupeKey = z.output<typeof keysSchema>[number];

/**
 * Reads keys of a webhook that are not expired, in the order of the keys.
 * @param after the last key of the previous part, in hex; '': from the first
 * @param fromId only keys of events from this id on, which contains a time; null: all
 */
export async function readKeys(
  { query }: Pick<Database, 'query'>,
  webhookId: string,
  after: string,
  fromId: string | null,
): Promise<DedupeKey[]> {
  const rows = await query<DedupeKey>({
    text: `
      select encode(key, 'hex') as key, event_id, ${isoText('expires_at')} as expires_at from dedupe_keys
      where webhook_id = $1 and key > decode($2, 'hex') and expires_at > now() and ($3::uuid is null or event_id >= $3)
      order by key limit ${AT_A_TIME}`,
    values: [webhookId, after, fromId],
  });
  return expected(keysSchema, rows);
}

/** True after the last part. */
export function isLastPart(keys: readonly DedupeKey[]): boolean {
  return keys.length < AT_A_TIME;
}

/** Stores keys of a webhook; one that is known and not expired stays. */
export async function writeKeys(query: Query, webhookId: string, keys: readonly DedupeKey[]): Promise<void> {
  await query({
    text: `
      insert into dedupe_keys as known (webhook_id, key, event_id, expires_at)
      select $1, decode(key, 'hex'), event_id, expires_at
      from json_to_recordset($2) k (key text, event_id uuid, expires_at timestamptz) order by key
      on conflict (webhook_id, key) do update set event_id = excluded.event_id, expires_at = excluded.expires_at
      where known.expires_at <= now()`,
    values: [webhookId, JSON.stringify(keys)],
  });
}

/** The clock of a cell, as Postgres prints it. */
export async function readMoment({ query }: Pick<Database, 'query'>): Promise<string> {
  const [row] = await query<{ at: string }>({ text: 'select clock_timestamp()::text as at' });
  return row!.at;
}

/** Whether a transaction there that stores events began before a moment, and may not see what was committed before it. */
export async function hasOlderTransactions({ query }: Pick<Database, 'query'>, moment: string): Promise<boolean> {
  const [row] = await query<{ any: boolean }>({
    text: `
      select exists (
        select from pg_stat_activity
        where datname = current_database() and application_name in ('weir', 'weir-spool') and pid <> pg_backend_pid() and xact_start <= $1::timestamptz
      ) as any`,
    values: [moment],
  });
  return row!.any;
}
