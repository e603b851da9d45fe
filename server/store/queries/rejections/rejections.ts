/** Rejections as users read, check and accept them. */
import type { z } from 'zod';
import type { Order } from '../../../model/order-by.ts';
import { rejectionSchema } from '../../../model/rejections.ts';
import type { SchemeDefinition } from '../../../model/signatures/definition.ts';
import type { KeptSignature } from '../../../model/signatures/diagnosis/kept-request.ts';
import type { RejectionReason } from '../../../model/signatures/diagnosis/reasons.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { isoColumn, selectList } from '../../sql.ts';
import { ordersOf } from '../agents/subscriptions.ts';

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

export interface RejectionDetail extends RejectionRecord {
  /** Header field lines. */
  headers: string;
  body: Buffer | null;
  dedupe_key: Buffer | null;
  url: string | null;
  webhook_enabled: boolean;
  /** Where new events of the webhook are stored. */
  webhook_cell: number;
  webhook_orders: Order[] | null;
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

export const detailColumns = `${rejectionColumns}, convert_from(r.headers, 'UTF8') as headers, r.body, r.dedupe_key, r.url, w.enabled as webhook_enabled, w.cell as webhook_cell, ${ordersOf('w.id')} as webhook_orders`;
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
