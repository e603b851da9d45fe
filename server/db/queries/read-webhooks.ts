import type { Database } from '../pool.ts';
import { arrayOf } from './sql.ts';

/** A webhook with its sealed secrets, current first; an expired previous secret is omitted. */
export interface WebhookRow {
  id: string;
  enabled: boolean;
  signatureHeader: string | null;
  dedupeHeader: string | null;
  maxPayloadBytes: number | null;
  rateLimitMax: number | null;
  sealed: Buffer[];
  /** Same order as `sealed`. */
  secretIds: string[];
  previousExpiresAtMs: number | null;
}

/** Reads the webhooks with these ids (null: the newest webhooks) in one query; unknown and deleted ones are omitted. */
export async function readWebhooks(
  database: Database,
  ids: readonly string[] | null,
  rowsMax: number,
): Promise<WebhookRow[]> {
  const rows = await database.query<Omit<WebhookRow, 'sealed'> & { sealed: string[] }>({
    name: 'read-webhooks',
    text: `
      select w.id, w.enabled,
        w.signature_header as "signatureHeader",
        w.dedupe_header as "dedupeHeader",
        w.max_payload_bytes as "maxPayloadBytes",
        w.rate_limit_max as "rateLimitMax",
        coalesce(json_agg(encode(s.sealed, 'hex') order by s.slot) filter (where s.webhook_id is not null), '[]') as sealed,
        coalesce(json_agg(s.id order by s.slot) filter (where s.webhook_id is not null), '[]') as "secretIds",
        (extract(epoch from max(s.expires_at)) * 1000)::float8 as "previousExpiresAtMs"
      from webhooks w
      left join webhook_secrets s on s.webhook_id = w.id and (s.expires_at is null or s.expires_at > now())
      where ($1::uuid[] is null or w.id = any ($1)) and w.deleted_at is null
      group by w.id
      order by w.created_at desc
      limit $2`,
    values: [ids && arrayOf(ids), rowsMax],
  });
  return rows.map((row) => ({ ...row, sealed: row.sealed.map((hex) => Buffer.from(hex, 'hex')) }));
}
