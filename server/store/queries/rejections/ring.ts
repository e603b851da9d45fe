/** Bounded stores of requests that were refused: the ring of rejections, with what checks them again, and samples of all others. */
import type { WebhookRequest } from '../../../model/history.ts';
import type { KeptSignature } from '../../../model/signatures/diagnosis/kept-request.ts';
import type { RejectionReason } from '../../../model/signatures/diagnosis/reasons.ts';
import { advisoryLocks, takeLock } from '../../advisory-locks.ts';
import type { Database, Queries } from '../../connect/pool.ts';
import { columnsOf, isoText } from '../../sql.ts';

/**
 * Limits of the ring. An insert that exceeds one deletes the oldest rejections. Two kinds are deleted last: the first rejection of each
 * reason, webhook and minute, and the newest half of each webhook, which a person reads while trying a fix.
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
    await takeLock(query, advisoryLocks.rejections);
    const reasons: RejectionReason[] = [];
    for (const row of rows) {
      const { id, webhookId, receivedAt, sourceIp, reason, header, otherwiseValid, otherWebhookId } = row;
      const { headers, signatures, body, bytes, batch, dedupeKey, url, onlyIfFirst } = row;
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
          ...[id, webhookId, receivedAt, sourceIp, reason, header, otherwiseValid, otherWebhookId],
          ...[Buffer.from(headers), JSON.stringify(signatures), body, bytes, batch],
          ...[dedupeKey && Buffer.from(dedupeKey), url, onlyIfFirst],
        ],
      });
      reasons.push(...stored.map(({ reason }) => reason));
    }
    await query({
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

/** Deletes rows older than RETENTION_DAYS or the webhook's own retention, and all rows of deleted webhooks. Returns how many. */
export async function deleteOldRejections(
  { query }: Queries,
  retentionDays: number,
  table: 'rejections' | 'request_samples' = 'rejections',
): Promise<number> {
  const rows = await query({
    text: `
      delete from ${table} r using webhooks w
      where w.id = r.webhook_id
        and (w.deleted_at is not null or r.received_at < now() - make_interval(days => least($1, w.retention_days)))
      returning 1`,
    values: [retentionDays],
  });
  return rows.length;
}

/** Limit on the samples that are kept of one status of a webhook. */
export const STATUS_KEPT_MAX = 200;
/** Limit on all samples. */
const KEPT_MAX = 20_000;

export interface RequestSample {
  id: string;
  webhookId: string;
  atMs: number;
  status: number;
  /** Code of the problem, or `duplicate`. */
  reason: string;
  client: string;
  /** Null: the request had no Content-Length. */
  bytes: number | null;
  /** The stored event of a duplicate. */
  eventId: string | null;
}

/** Stores samples, and deletes the oldest over the limits. */
export async function storeRequestSamples({ query }: Queries, samples: readonly RequestSample[]): Promise<void> {
  await query({
    name: 'store-request-samples',
    text: `
      with given as (
        select * from unnest($1::uuid[], $2::uuid[], $3::float8[], $4::smallint[], $5::text[], $6::inet[], $7::bigint[], $8::uuid[])
          g (id, webhook_id, ms, status, reason, source_ip, bytes, event_id)
      ), stored as (
        insert into request_samples (id, webhook_id, received_at, status, reason, source_ip, bytes, event_id)
        select id, webhook_id, to_timestamp(ms / 1000), status, reason, source_ip, bytes, event_id from given
        on conflict do nothing
      ), over as (
        delete from request_samples s using (
          select webhook_id, status, (
            select id from request_samples o where o.webhook_id = g.webhook_id and o.status = g.status
            order by id desc offset ${STATUS_KEPT_MAX - 1} limit 1) as last_id
          from (select distinct webhook_id, status from given) g
        ) kept
        where s.webhook_id = kept.webhook_id and s.status = kept.status and s.id <= kept.last_id
      )
      delete from request_samples
      where id <= (select id from request_samples order by id desc offset ${KEPT_MAX} limit 1)`,
    values: columnsOf(samples, 'id', 'webhookId', 'atMs', 'status', 'reason', 'client', 'bytes', 'eventId'),
  });
}

interface RequestSampleRow extends Pick<WebhookRequest, 'id' | 'at' | 'status' | 'client' | 'bytes'> {
  reason: string;
  event_id: string | null;
}

/** Lists samples of a webhook, newest first. `from` and `to`: ISO. `before`: id of the last sample of the previous page. */
export function listRequestSamples(
  { query }: Queries,
  webhookId: string,
  { status, from, to }: { status: number | null; from: string | null; to: string | null },
  before: string | null,
  limit: number,
): Promise<RequestSampleRow[]> {
  return query<RequestSampleRow>({
    text: `
      select id, ${isoText('received_at')} as at, status::int as status, reason, host(source_ip) as client, bytes::float8 as bytes, event_id
      from request_samples
      where webhook_id = $1 and ($2::int is null or status = $2) and ($3::timestamptz is null or received_at >= $3)
        and ($4::timestamptz is null or received_at < $4) and ($5::uuid is null or id < $5)
      order by id desc
      limit $6`,
    values: [webhookId, status, from, to, before, limit],
  });
}
