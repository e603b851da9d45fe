/** The ring of rejections: a bounded store of requests whose signature was rejected. */
import type { z } from 'zod';
import { rejectionSchema } from '../../../model/rejections.ts';
import type { SchemeDefinition } from '../../../model/signatures/definition.ts';
import type { KeptSignature } from '../../../model/signatures/diagnosis/kept-request.ts';
import type { RejectionReason } from '../../../model/signatures/diagnosis/reasons.ts';
import type { SchemeSettings } from '../../../model/signatures/presets.ts';
import { advisoryLocks } from '../../advisory-locks.ts';
import type { Database, Query } from '../../pool.ts';
import { arrayOf, isoColumn, selectList } from '../../sql.ts';

/**
 * Limits of the ring. An insert that exceeds one deletes the oldest rejections, at last those that are the first of their reason, webhook
 * and minute. The newest half of a webhook counts as such: a person who tries a fix looks at them.
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

const columnsSchema = rejectionSchema.omit({ hint: true, expected_headers: true, fixes: true, last_check: true });

/** A rejection without its body. */
export interface RejectionRecord extends z.output<typeof columnsSchema> {
  signatures: KeptSignature[];
  /** The webhook's current settings. */
  signature_scheme: string;
  public_key: string | null;
  scheme_definition: SchemeDefinition | null;
  signature_header: string | null;
  event_type_from: string | null;
  checked_at: string | null;
  checked_reason: RejectionReason | null;
}

/** A rejection with all fields. */
export interface RejectionDetail extends RejectionRecord {
  /** Header field lines. */
  headers: string;
  body: Buffer | null;
  dedupe_key: Buffer | null;
  url: string | null;
  webhook_enabled: boolean;
  /** Where new events of the webhook are stored. */
  webhook_cell: number;
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

const other = `case when o.id is not null then json_build_object('id', o.id, 'name', o.name) end`;
export const rejectionColumns = `${selectList(columnsSchema, 'r', {
  webhook_name: 'w.name',
  source_ip: 'host(r.source_ip)',
  reason: 'r.reason::text',
  other_webhook: other,
  body_kept: 'r.body is not null',
})}, w.signature_scheme, w.scheme_definition, w.signature_header, w.public_key, w.event_type_from, ${isoColumn('r.checked_at')}, r.checked_reason::text as checked_reason`;
/** Excludes deleted webhooks, whose rejections maintenance may not have deleted yet. */
export const fromRejections = `from rejections r join webhooks w on w.id = r.webhook_id and w.deleted_at is null
  left join webhooks o on o.id = r.other_webhook_id and o.deleted_at is null`;

export const detailColumns = `${rejectionColumns}, convert_from(r.headers, 'UTF8') as headers, r.body, r.dedupe_key, r.url, w.enabled as webhook_enabled, w.cell as webhook_cell`;
const detail = `select ${detailColumns} ${fromRejections} where r.id = $1`;

interface RejectionFilter {
  webhookId: string | null;
  reason: RejectionReason | null;
  /** ISO; received at this time or later. */
  from: string | null;
  /** ISO; received before this time. */
  to: string | null;
}

/** Lists rejections, newest first. `before`: id of the last rejection of the previous page. */
export function listRejections(
  database: Database,
  { webhookId, reason, from, to }: RejectionFilter,
  before: string | null,
  limit: number,
): Promise<RejectionRecord[]> {
  return database.query<RejectionRecord>({
    name: 'list-rejections',
    text: `
      select ${rejectionColumns} ${fromRejections}
      where ($1::uuid is null or r.webhook_id = $1) and ($2::text is null or r.reason = $2)
        and ($3::uuid is null or r.id < $3)
        and ($5::timestamptz is null or r.received_at >= $5) and ($6::timestamptz is null or r.received_at < $6)
      order by r.id desc
      limit $4`,
    values: [webhookId, reason, before, limit, from, to],
  });
}

export async function findRejection(query: Query, id: string): Promise<RejectionDetail | undefined> {
  const [row] = await query<RejectionDetail>({ name: 'find-rejection', text: detail, values: [id] });
  return row;
}

/** Finds a rejection and locks it until the transaction ends; its webhook cannot change until then. */
export async function lockRejection(query: Query, id: string): Promise<RejectionDetail | undefined> {
  const [row] = await query<RejectionDetail>({ text: `${detail} for update of r for share of w`, values: [id] });
  return row;
}

/** Stores the result of verifying the rejection again. */
export async function setRejectionChecked(
  query: Query,
  id: string,
  reason: RejectionReason,
  otherWebhookId: string | null,
): Promise<void> {
  await query({
    text: `
      update rejections
      set checked_at = now(), checked_reason = $2, other_webhook_id = coalesce($3, other_webhook_id)
      where id = $1`,
    values: [id, reason, otherWebhookId],
  });
}

/** Records that the rejection was stored as an event. */
export async function setRejectionAccepted(query: Query, id: string, eventId: string): Promise<void> {
  await query({ text: 'update rejections set accepted_event_id = $2 where id = $1', values: [id, eventId] });
}

interface KeyringRow extends SchemeSettings {
  id: string;
  publicKey: string | null;
  sealed: { hex: string; expired: boolean }[];
}

/**
 * Reads the keyrings of these webhooks and of the `othersMax` most recently changed ones; deleted webhooks are omitted. Sealed secrets
 * are listed current first and include expired ones.
 */
export function readKeyringRows(query: Query, webhookIds: readonly string[], othersMax: number): Promise<KeyringRow[]> {
  return query({
    name: 'read-keyrings',
    text: `
      select w.id, w.signature_scheme as "signatureScheme", w.scheme_definition as "schemeDefinition",
        w.tolerance_seconds as "toleranceSeconds", w.public_key as "publicKey", w.signature_header as "signatureHeader",
        coalesce(json_agg(json_build_object('hex', encode(s.sealed, 'hex'),
          'expired', coalesce(s.expires_at <= now(), false)) order by s.slot) filter (where s.webhook_id is not null), '[]') as sealed
      from webhooks w left join webhook_secrets s on s.webhook_id = w.id
      where w.deleted_at is null and (w.id = any ($1::uuid[])
        or w.id = any (array(select id from webhooks where deleted_at is null order by updated_at desc limit $2)))
      group by w.id`,
    values: [arrayOf(webhookIds), othersMax],
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
