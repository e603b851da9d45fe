/** Secrets of webhooks, sealed: rotation and reading. Statements lock them in the order of webhook and slot. */
import type { z } from 'zod';
import { secretSchema } from '../../../model/webhook-secrets.ts';
import type { Database, Queries, Query } from '../../connect/pool.ts';
import { arrayOf, isoText, selectList } from '../../sql.ts';

/** Stores a new current secret. The old one becomes `previous` for `overlapSeconds`, or is deleted when that is 0. */
export async function replaceSecret(query: Query, id: string, sealed: Buffer, overlapSeconds: number): Promise<void> {
  const going = overlapSeconds > 0 ? ['previous'] : ['previous', 'current'];
  await query({
    text: 'delete from webhook_secrets where webhook_id = $1 and slot = any ($2)',
    values: [id, arrayOf(going)],
  });
  await query({
    text: `update webhook_secrets set slot = 'previous', expires_at = now() + make_interval(secs => $2)
           where webhook_id = $1 and slot = 'current'`,
    values: [id, overlapSeconds],
  });
  await query({
    text: `
      with secret as (insert into webhook_secrets (webhook_id, slot, sealed) values ($1, 'current', $2) returning id)
      insert into webhook_state as s (webhook_id, secret_id) select $1, id from secret
      on conflict (webhook_id) do update set secret_id = excluded.secret_id, uses = 0, used_at = null,
        previous_uses = s.uses, previous_used_at = s.used_at`,
    values: [id, sealed],
  });
}

/** Deletes the previous secret. Returns false when it was not found. */
export async function deletePreviousSecret(query: Query, id: string): Promise<boolean> {
  const deleted = await query({
    text: `delete from webhook_secrets where webhook_id = $1 and slot = 'previous' returning 1`,
    values: [id],
  });
  return deleted.length > 0;
}

/** Returns the current sealed secret; undefined when the webhook has none. */
export async function findSealedSecret({ query }: Queries, id: string): Promise<Buffer | undefined> {
  const [row] = await query<{ sealed: Buffer }>({
    text: `select sealed from webhook_secrets where webhook_id = $1 and slot = 'current'`,
    values: [id],
  });
  return row?.sealed;
}

/**
 * Reads the active secrets of a webhook, current first, without the secrets themselves. Uses that were counted before webhook_state existed
 * are in webhook_secrets.
 */
export function readSecretUses({ query }: Database, webhookId: string): Promise<z.output<typeof secretSchema>[]> {
  return query({
    text: `select ${selectList(secretSchema, 's', {
      uses: `(s.uses + coalesce(case s.slot when 'current' then w.uses else w.previous_uses end, 0))::float8`,
      last_used_at: isoText(
        `greatest(s.last_used_at, case s.slot when 'current' then w.used_at else w.previous_used_at end)`,
      ),
    })}
           from webhook_secrets s left join webhook_state w using (webhook_id)
           where s.webhook_id = $1 and (s.expires_at is null or s.expires_at > now())
           order by s.slot`,
    values: [webhookId],
  });
}

const PAGE_ROWS = 500;

interface SealedSecret {
  webhookId: string;
  slot: string;
  sealed: Buffer;
}

/** Reads the active sealed secrets of all webhooks, in pages. */
export async function* sealedSecrets({ query }: Queries): AsyncGenerator<SealedSecret> {
  let after = { webhookId: '00000000-0000-0000-0000-000000000000', slot: '' };
  for (;;) {
    const rows = await query<SealedSecret>({
      text: `select webhook_id as "webhookId", slot, sealed from webhook_secrets
             where (webhook_id, slot) > ($1, $2) and (expires_at is null or expires_at > now())
             order by webhook_id, slot limit ${PAGE_ROWS}`,
      values: [after.webhookId, after.slot],
    });
    yield* rows;
    if (rows.length < PAGE_ROWS) return;
    after = rows.at(-1)!;
  }
}
