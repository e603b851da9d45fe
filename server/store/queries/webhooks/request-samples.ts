/** Samples of requests that were refused for another reason than their signature, and of duplicates. */
import type { Database } from '../../connect/pool.ts';
import { arrayOf, isoText } from '../../sql.ts';

/** Samples kept of one status of a webhook, and of all. */
export const STATUS_KEPT_MAX = 200;
const KEPT_MAX = 20_000;

export interface RequestSample {
  /** UUIDv7 of the time of the answer. */
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
export async function storeRequestSamples(
  { query }: Pick<Database, 'query'>,
  samples: readonly RequestSample[],
): Promise<void> {
  await query({
    name: 'store-request-samples',
    text: `
      with given as (
        select * from unnest($1::uuid[], $2::uuid[], $3::float8[], $4::smallint[], $5::text[], $6::inet[], $7::bigint[], $8::uuid[])
          g (id, webhook_id, seconds, status, reason, source_ip, bytes, event_id)
      ), stored as (
        insert into request_samples (id, webhook_id, received_at, status, reason, source_ip, bytes, event_id)
        select id, webhook_id, to_timestamp(seconds), status, reason, source_ip, bytes, event_id from given
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
    values: [
      samples.map(({ id }) => id),
      samples.map(({ webhookId }) => webhookId),
      samples.map(({ atMs }) => atMs / 1_000),
      samples.map(({ status }) => status),
      samples.map(({ reason }) => reason),
      samples.map(({ client }) => client),
      samples.map(({ bytes }) => bytes ?? 'null'),
      samples.map(({ eventId }) => eventId ?? 'null'),
    ].map(arrayOf),
  });
}

export interface RequestSampleRow {
  id: string;
  at: string;
  status: number;
  reason: string;
  client: string;
  bytes: number | null;
  event_id: string | null;
}

/** Newest first. `from` and `to`: ISO. `before`: id of the last request of the page before. */
export function listRequestSamples(
  { query }: Pick<Database, 'query'>,
  webhookId: string,
  { status, from, to }: { status: number | null; from: string | null; to: string | null },
  before: string | null,
  limit: number,
): Promise<RequestSampleRow[]> {
  return query<RequestSampleRow>({
    name: 'list-request-samples',
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

/** Deletes samples older than RETENTION_DAYS or the webhook's own retention, and those of deleted webhooks. */
export async function deleteOldRequestSamples(
  { query }: Pick<Database, 'query'>,
  retentionDays: number,
): Promise<void> {
  await query({
    text: `
      delete from request_samples s using webhooks w
      where w.id = s.webhook_id
        and (w.deleted_at is not null or s.received_at < now() - make_interval(days => least($1, w.retention_days)))`,
    values: [retentionDays],
  });
}
