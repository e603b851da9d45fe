import type { Database } from '../pool.ts';

/** The sealed secrets in force, of all webhooks that are not deleted. */
export async function readSealedSecrets(database: Database): Promise<{ webhookId: string; sealed: Buffer }[]> {
  const rows = await database.query<{ webhookId: string; sealed: string }>({
    text: `select s.webhook_id as "webhookId", encode(s.sealed, 'hex') as sealed
           from webhook_secrets s join webhooks w on w.id = s.webhook_id and w.deleted_at is null
           where s.expires_at is null or s.expires_at > now()
           order by w.created_at, s.slot`,
  });
  return rows.map(({ webhookId, sealed }) => ({ webhookId, sealed: Buffer.from(sealed, 'hex') }));
}
