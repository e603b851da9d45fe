import type { Database } from '../pool.ts';

/** Limit on the rows in memory at a time. */
const PAGE_ROWS = 500;

/** Reads the active sealed secrets of all webhooks that are not deleted. */
export async function readSealedSecrets(database: Database): Promise<{ webhookId: string; sealed: Buffer }[]> {
  const rows = await database.query<{ webhookId: string; sealed: string }>({
    text: `select s.webhook_id as "webhookId", encode(s.sealed, 'hex') as sealed
           from webhook_secrets s join webhooks w on w.id = s.webhook_id and w.deleted_at is null
           where s.expires_at is null or s.expires_at > now()
           order by w.created_at, s.slot`,
  });
  return rows.map(({ webhookId, sealed }) => ({ webhookId, sealed: Buffer.from(sealed, 'hex') }));
}

/** Searches the active sealed secrets for one that `opens` accepts. `examined`: number of secrets read. */
export async function findOpening(
  database: Database,
  opens: (webhookId: string, sealed: Buffer) => boolean,
): Promise<{ examined: number; found: boolean }> {
  let after = { webhookId: '00000000-0000-0000-0000-000000000000', slot: '' };
  for (let examined = 0; ; ) {
    const rows = await database.query<{ webhookId: string; slot: string; sealed: Buffer }>({
      text: `select webhook_id as "webhookId", slot, sealed from webhook_secrets
             where (webhook_id, slot) > ($1, $2) and (expires_at is null or expires_at > now())
             order by webhook_id, slot limit ${PAGE_ROWS}`,
      values: [after.webhookId, after.slot],
    });
    examined += rows.length;
    if (rows.some(({ webhookId, sealed }) => opens(webhookId, sealed))) return { examined, found: true };
    if (rows.length < PAGE_ROWS) return { examined, found: false };
    after = rows.at(-1)!;
  }
}
