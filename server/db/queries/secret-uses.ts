/** How often each secret of a webhook verified. */
import type { Database } from '../pool.ts';
import { isoText } from './iso-text.ts';

interface SecretRecord {
  slot: 'current' | 'previous';
  created_at: string;
  /** Of the previous one. */
  expires_at: string | null;
  uses: number;
  last_used_at: string | null;
}

/**
 * Adds uses by the ids of secrets; those that are gone are left out. Rows are locked in the order in which a rotation locks them
 * (lockWebhook): several processes and rotations wait for each other, never in a circle.
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
    values: [`{${[...uses.keys()].join(',')}}`, `{${[...uses.values()].join(',')}}`],
  });
}

/** The secrets of a webhook in force, current first; never the secrets themselves. */
export function readSecretUses({ query }: Database, webhookId: string): Promise<SecretRecord[]> {
  const iso = (column: string) => `${isoText(column)} as ${column}`;
  return query<SecretRecord>({
    text: `select slot, ${iso('created_at')}, ${iso('expires_at')}, uses::float8 as uses, ${iso('last_used_at')}
           from webhook_secrets
           where webhook_id = $1 and (expires_at is null or webhook_secrets.expires_at > now())
           order by slot`,
    values: [webhookId],
  });
}
