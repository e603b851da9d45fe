import type { Database } from '../pool.ts';

type Query = Database['query'];

/** A webhook as people see it; never its secret. */
export interface WebhookRecord {
  id: string;
  name: string;
  enabled: boolean;
  has_secret: boolean;
  previous_secret_expires_at: string | null;
  signature_header: string | null;
  dedupe_header: string | null;
  rate_limit_max: number | null;
  created_at: string;
}

/** One webhook, or all that are not deleted, oldest first. */
export function listWebhooks({ query }: { query: Query }, id: string | null): Promise<WebhookRecord[]> {
  return query<WebhookRecord>({
    text: `
      select w.id, w.name, w.enabled, w.signature_header, w.dedupe_header, w.rate_limit_max,
        to_char(w.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at,
        exists (select from webhook_secrets s where s.webhook_id = w.id and s.slot = 'current') as has_secret,
        (select to_char(s.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') from webhook_secrets s
          where s.webhook_id = w.id and s.slot = 'previous' and s.expires_at > now()) as previous_secret_expires_at
      from webhooks w
      where w.deleted_at is null and ($1::uuid is null or w.id = $1)
      order by w.created_at, w.id`,
    values: [id],
  });
}

/** Inserts a webhook without a secret. */
export async function insertWebhook(
  query: Query,
  webhook: {
    id: string;
    name: string;
    signatureHeader: string | null;
    dedupeHeader: string | null;
    rateLimitMax: number | null;
  },
): Promise<void> {
  await query({
    text: `insert into webhooks (id, name, signature_header, dedupe_header, rate_limit_max)
           values ($1, $2, $3, $4, $5)`,
    values: [webhook.id, webhook.name, webhook.signatureHeader, webhook.dedupeHeader, webhook.rateLimitMax],
  });
}

/** False when there is no such webhook. */
export async function setWebhookEnabled(query: Query, id: string, enabled: boolean): Promise<boolean> {
  const rows = await query({
    text: 'update webhooks set enabled = $2, updated_at = now() where id = $1 and deleted_at is null returning id',
    values: [id, enabled],
  });
  return rows.length > 0;
}

/** Soft; its secrets are gone for good. False when there is no such webhook. */
export async function deleteWebhook(query: Query, id: string): Promise<boolean> {
  const rows = await query({
    text: 'update webhooks set deleted_at = now(), updated_at = now() where id = $1 and deleted_at is null returning id',
    values: [id],
  });
  await query({ text: 'delete from webhook_secrets where webhook_id = $1', values: [id] });
  return rows.length > 0;
}

/** Puts a sealed secret in force; the one before becomes `previous` for so long, or goes with `overlapSeconds` 0. */
export async function replaceSecret(query: Query, id: string, sealed: Buffer, overlapSeconds: number): Promise<void> {
  await query({ text: `delete from webhook_secrets where webhook_id = $1 and slot = 'previous'`, values: [id] });
  if (overlapSeconds > 0)
    await query({
      text: `update webhook_secrets set slot = 'previous', expires_at = now() + make_interval(secs => $2)
             where webhook_id = $1 and slot = 'current'`,
      values: [id, overlapSeconds],
    });
  await query({
    text: `insert into webhook_secrets (webhook_id, slot, sealed) values ($1, 'current', $2)
           on conflict (webhook_id, slot) do update set sealed = excluded.sealed, created_at = now()`,
    values: [id, sealed],
  });
}
