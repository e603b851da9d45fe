/** The ring of rejections: a bounded store of requests whose signature was rejected. */
import type { KeptSignature } from '../../../model/signatures/diagnosis/kept-request.ts';
import type { RejectionReason } from '../../../model/signatures/diagnosis/reasons.ts';
import { advisoryLocks } from '../../advisory-locks.ts';
import type { Database } from '../../connect/pool.ts';

/**
 * Limits of the ring. An insert that exceeds one deletes the oldest rejections. Deleted last are the first of each reason, webhook and minute,
 * and the newest half of each webhook, which a person who tries a fix looks at.
 */
export interface RingLimits {
  rejectionsMax: number;
  /** Per webhook, so that one busy webhook does not evict the rejections of others. */
  webhookRejectionsMax: number;
  bytesMax: number;
}

export interface RejectionRow {
  /** UUIDv7. */
  id: string;
  webhookId: string;
  receivedAt: string;
  sourceIp: string;
  reason: RejectionReason;
  header: string | null;
  otherwiseValid: boolean | null;
  /** The webhook whose secret signed the request; null: unknown. */
  otherWebhookId: string | null;
  headers: string;
  signatures: readonly KeptSignature[];
  body: Buffer | null;
  bytes: number;
  batch: boolean;
  dedupeKey: Uint8Array | null;
  /** The URL that the sender signed; null: the scheme signs none. */
  url: string | null;
  /** Stored only if no rejection of its minute has its webhook and reason. */
  onlyIfFirst: boolean;
}

/** Stores rejections, oldest first, and deletes those that exceed the limits of the ring. Returns the reasons of the stored ones. */
export function storeRejections(
  database: Database,
  rows: readonly RejectionRow[],
  limits: RingLimits,
): Promise<RejectionReason[]> {
  return database.transaction(async (query) => {
    await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.rejections] });
    const reasons: RejectionReason[] = [];
    for (const row of rows) {
      const stored = await query<{ reason: RejectionReason }>({
        name: 'insert-rejection',
        text: `
          insert into rejections (id, webhook_id, received_at, source_ip, reason, header, otherwise_valid,
            other_webhook_id, headers, signatures, body, bytes, batch, dedupe_key, url)
          select $1::uuid, $2::uuid, $3::timestamptz, $4::inet, $5::text, $6::text, $7::boolean,
            $8::uuid, $9::bytea, $10::json, $11::bytea, $12::int, $13::boolean, $14::bytea, $15::text
          where not $16::boolean or not exists (
            select from rejections
            where webhook_id = $2::uuid and reason = $5::text
              and date_trunc('minute', received_at) = date_trunc('minute', $3::timestamptz))
          returning reason::text as reason`,
        values: [
          row.id,
          row.webhookId,
          row.receivedAt,
          row.sourceIp,
          row.reason,
          row.header,
          row.otherwiseValid,
          row.otherWebhookId,
          Buffer.from(row.headers),
          JSON.stringify(row.signatures),
          row.body,
          row.bytes,
          row.batch,
          row.dedupeKey && Buffer.from(row.dedupeKey),
          row.url,
          row.onlyIfFirst,
        ],
      });
      reasons.push(...stored.map(({ reason }) => reason));
    }
    await query({
      name: 'trim-rejections',
      text: `
        delete from rejections where id in (
          select id from (
            select id,
              row_number() over (order by matters desc, id desc) as place,
              row_number() over (partition by webhook_id order by matters desc, id desc) as place_of_webhook,
              sum(kept_bytes) over (order by matters desc, id desc) as bytes
            from (
              select id, webhook_id, kept_bytes,
                row_number() over (partition by webhook_id, reason, date_trunc('minute', received_at) order by id) = 1
                  or row_number() over (partition by webhook_id order by id desc) <= $2::int / 2 as matters
              from rejections) ranked) ring
          where place > $1 or place_of_webhook > $2 or bytes > $3)`,
      values: [limits.rejectionsMax, limits.webhookRejectionsMax, limits.bytesMax],
    });
    return reasons;
  });
}

/** Deletes rejections older than RETENTION_DAYS or the webhook's own retention, and those of deleted webhooks. Returns how many. */
export async function deleteOldRejections(database: Database, retentionDays: number): Promise<number> {
  const rows = await database.query({
    text: `
      delete from rejections r using webhooks w
      where w.id = r.webhook_id
        and (w.deleted_at is not null or r.received_at < now() - make_interval(days => least($1, w.retention_days)))
      returning 1`,
    values: [retentionDays],
  });
  return rows.length;
}
