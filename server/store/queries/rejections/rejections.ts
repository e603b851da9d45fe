/** Rejections as users read, group, check and accept them. */
import type { z } from 'zod';
import type { Order } from '../../../model/order-by.ts';
import { type rejectionGroupSchema, rejectionSchema } from '../../../model/rejections.ts';
import type { SchemeDefinition } from '../../../model/signatures/definition.ts';
import type { KeptSignature } from '../../../model/signatures/diagnosis/kept-request.ts';
import type { RejectionReason } from '../../../model/signatures/diagnosis/reasons.ts';
import type { SchemeSettings } from '../../../model/signatures/presets.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { arrayOf, isoColumn, isoText, selectList } from '../../sql.ts';
import { ordersOf } from '../agents/subscriptions.ts';
import { ALL_WEBHOOKS, HOUR } from '../webhooks/history.ts';

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
const rejectionColumns = `${selectList(columnsSchema, 'r', {
  webhook_name: 'w.name',
  source_ip: 'host(r.source_ip)',
  reason: 'r.reason::text',
  other_webhook: other,
  body_kept: 'r.body is not null',
})}, w.signature_scheme, w.scheme_definition, w.signature_header, w.public_key, w.event_type_from, ${isoColumn('r.checked_at')}, r.checked_reason::text as checked_reason`;
/** Excludes deleted webhooks, whose rejections maintenance may not have deleted yet. */
const fromRejections = `from rejections r join webhooks w on w.id = r.webhook_id and w.deleted_at is null
  left join webhooks o on o.id = r.other_webhook_id and o.deleted_at is null`;

const detailColumns = `${rejectionColumns}, convert_from(r.headers, 'UTF8') as headers, r.body, r.dedupe_key, r.url, w.enabled as webhook_enabled, w.cell as webhook_cell, ${ordersOf('w.id')} as webhook_orders`;
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

/** Finds a rejection, with its body; undefined: not found, or its webhook is deleted. */
export async function findRejection(query: Query, id: string): Promise<RejectionDetail | undefined> {
  const [row] = await query<RejectionDetail>({ name: 'find-rejection', text: detail, values: [id] });
  return row;
}

/** Finds a rejection and locks it until the transaction ends; its webhook cannot change until then. */
export async function lockRejection(query: Query, id: string): Promise<RejectionDetail | undefined> {
  const [row] = await query<RejectionDetail>({ text: `${detail} for update of r for share of w`, values: [id] });
  return row;
}

/** Records the result of a check. @param otherWebhookId webhook whose secret signed the request; null: unchanged */
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

/** Records that a rejection was accepted, and as which event. */
export async function setRejectionAccepted(query: Query, id: string, eventId: string): Promise<void> {
  await query({ text: 'update rejections set accepted_event_id = $2 where id = $1', values: [id, eventId] });
}

interface KeyringRow extends SchemeSettings {
  id: string;
  publicKey: string | null;
  sealed: { hex: string; expired: boolean }[];
}

/** Reads the keyrings of these webhooks and of the `othersMax` most recently changed ones. Secrets are current first, with expired ones. */
export function readKeyringRows(query: Query, webhookIds: readonly string[], othersMax: number): Promise<KeyringRow[]> {
  return query({
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

/** Rejections of one webhook with the same reason and header, which one fix may concern. */
interface GroupRow extends Omit<z.output<typeof rejectionGroupSchema>, 'newest'> {
  /** Ids of the newest, at most GROUP_SHOWN_MAX. */
  newest: string[];
}

const GROUP_SHOWN_MAX = 5;

const acceptable = `r.checked_reason = 'verifies_now' and r.accepted_event_id is null and r.body is not null and not r.batch`;

/** Groups the rejections that were not accepted: those of the last hour first, the largest first. The ring bounds what is read. */
export function groupRejections(database: Database, webhookId: string | null, limit: number): Promise<GroupRow[]> {
  return database.query<GroupRow>({
    text: `
      select r.webhook_id, w.name as webhook_name, r.reason::text as reason, r.header, count(*)::int as rejections,
        count(distinct r.source_ip)::int as sources, (count(*) filter (where ${acceptable}))::int as acceptable,
        ${isoText('min(r.received_at)')} as first_received_at, ${isoText('max(r.received_at)')} as last_received_at,
        (array_agg(r.id::text order by r.id desc))[1:${GROUP_SHOWN_MAX}] as newest
      ${fromRejections}
      where r.accepted_event_id is null and ($1::uuid is null or r.webhook_id = $1)
      group by r.webhook_id, w.name, r.reason, r.header
      order by max(r.received_at) > now() - interval '1 hour' desc, count(*) desc, max(r.received_at) desc
      limit $2`,
    values: [webhookId, limit],
  });
}

/** How many of the rejected requests are kept as samples. */
interface Kept {
  kept: number;
  /** Requests rejected since `since`. The counts of the last seconds may be missing, but not below `kept`. */
  rejected: number;
  /** Start of the hour of the oldest sample; null: nothing is kept. */
  since: string | null;
}

/** Compares the samples of a webhook, or of all (null), with the count of all rejected requests of the same time. */
export async function countKept(database: Database, webhookId: string | null): Promise<Kept> {
  const [row] = await database.query<Kept>({
    text: `
      with samples as (
        select count(*)::int as kept, date_trunc('hour', min(r.received_at), 'UTC') as since
        ${fromRejections}
        where $1::uuid is null or r.webhook_id = $1
      )
      select s.kept, ${isoColumn('s.since')}, greatest(s.kept, (
        select sum(h.rejected) from history h
        where h.webhook_id = coalesce($1, '${ALL_WEBHOOKS}') and h.step = ${HOUR} and h.at >= s.since))::float8 as rejected
      from samples s`,
    values: [webhookId],
  });
  return row!;
}

/** Rejections by id, without bodies, newest first. */
export function readRejections(database: Database, ids: readonly string[]): Promise<RejectionRecord[]> {
  return database.query<RejectionRecord>({
    text: `select ${rejectionColumns} ${fromRejections} where r.id = any ($1::uuid[]) order by r.id desc`,
    values: [arrayOf(ids)],
  });
}

/** The rejection itself, and the newest with the same webhook, reason and header; those that were not accepted and have a body. */
export function listSimilarRejections(
  query: Query,
  { id, webhook_id, reason, header }: Pick<RejectionRecord, 'id' | 'webhook_id' | 'reason' | 'header'>,
  limit: number,
): Promise<RejectionDetail[]> {
  return query<RejectionDetail>({
    text: `
      select ${detailColumns} ${fromRejections}
      where r.webhook_id = $1 and r.reason = $2 and r.header is not distinct from $3
        and r.accepted_event_id is null and r.body is not null
      order by (r.id = $4) desc, r.id desc
      limit $5`,
    values: [webhook_id, reason, header, id, limit],
  });
}

/** Ids of a webhook's rejections that verified at their last re-check and can be accepted, oldest first. */
export async function listAcceptable(database: Database, webhookId: string, limit: number): Promise<string[]> {
  const rows = await database.query<{ id: string }>({
    text: `select r.id from rejections r where r.webhook_id = $1 and ${acceptable} order by r.id limit $2`,
    values: [webhookId, limit],
  });
  return rows.map(({ id }) => id);
}
