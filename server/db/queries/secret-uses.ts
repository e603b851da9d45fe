/** How many requests each secret of a webhook verified. */
import type { Database } from '../pool.ts';
import { arrayOf, isoColumn } from './sql.ts';

interface SecretRecord {
  slot: 'current' | 'previous';
  created_at: string;
  /** Set for the previous secret only. */
  expires_at: string | null;
  uses: number;
  last_used_at: string | null;
}

/**
 * Adds uses by secret id; ids of deleted secrets are ignored. Rows are locked in the same order as by a rotation (lockWebhook), so
 * processes and rotations cannot deadlock.
 */
export async function addSecretUses({ query }: Database, uses: ReadonlyMap<string, number>): Promise<void> {
  await query({
    name: 'add-secret-uses',
    text: `
      with counted as (
        select * from unnest($1::uuid[], $2::bigint[]) c (id, uses)
      ), locked as (
        select s.id from webhook_secrets s where s.id in (select id from counted)
        order by s.webhook_id, s.slot for no key update
      )
      update webhook_secrets s set uses = s.uses + counted.uses, last_used_at = now()
      from locked join counted using (id)
      where s.id = locked.id`,
    values: [arrayOf(uses.keys()), arrayOf(uses.values())],
  });
}

/** Reads the active secrets of a webhook, current first, without the secrets themselves. */
export function readSecretUses({ query }: Database, webhookId: string): Promise<SecretRecord[]> {
  return query<SecretRecord>({
    text: `select slot, ${isoColumn('created_at')}, ${isoColumn('expires_at')}, uses::float8 as uses, ${isoColumn('last_used_at')}
           from webhook_secrets
           where webhook_id = $1 and (expires_at is null or webhook_secrets.expires_at > now())
           order by slot`,
    values: [webhookId],
  });
}
