/** Webhooks: management, and the rows that ingest caches. */
import type { z } from 'zod';
import type { Order } from '../../../model/order-by.ts';
import type { Answer, RefusedStatus } from '../../../model/signatures/answer.ts';
import type { SchemeSettings } from '../../../model/signatures/presets.ts';
import { webhookSchema } from '../../../model/webhooks.ts';
import type { Database, Queries, Query } from '../../connect/pool.ts';
import { arrayOf, isoText, rowsNamed, selectList } from '../../sql.ts';
import { ordersOf } from '../agents/subscriptions.ts';

const storedSchema = webhookSchema.omit({ url: true });
/** A webhook as the API shows it, without its address. */
export type WebhookRecord = z.output<typeof storedSchema>;

/** The columns that users can set. */
const settableSchema = storedSchema.omit({
  id: true,
  has_secret: true,
  has_verify_token: true,
  previous_secret_expires_at: true,
  agent_ids: true,
  cell: true,
  created_at: true,
  updated_at: true,
});
type WebhookColumns = z.output<typeof settableSchema>;
type GivenColumns = { [Column in keyof WebhookColumns]?: WebhookColumns[Column] | undefined };
const webhookColumns = Object.keys(settableSchema.shape) as (keyof WebhookColumns)[];

export interface WebhookFilter {
  /** Webhooks that this agent is subscribed to. */
  agentId: string | null;
  enabled: boolean | null;
  /** Substring of the name, case-insensitive. */
  contains: string | null;
}

// has_secret counts: with `exists` Postgres hashes the secrets of all webhooks, whatever the limit, 20 ms for 100,000.
const record = selectList(storedSchema, 'w', {
  has_verify_token: 'w.verify_token is not null',
  has_secret: `(select count(*) > 0 from webhook_secrets s where s.webhook_id = w.id and s.slot = 'current')`,
  previous_secret_expires_at: `(select ${isoText('s.expires_at')} from webhook_secrets s
    where s.webhook_id = w.id and s.slot = 'previous' and s.expires_at > now())`,
  agent_ids: `(select coalesce(json_agg(a.id order by a.created_at, a.id), '[]') from subscriptions s join agents a on a.id = s.agent_id
    where s.webhook_id = w.id and a.revoked_at is null)`,
});

/** Finds a webhook that is not deleted. */
export async function findWebhook(query: Query, id: string): Promise<WebhookRecord | undefined> {
  const [row] = await query<WebhookRecord>({
    text: `select ${record} from webhooks w where w.id = $1 and w.deleted_at is null`,
    values: [id],
  });
  return row;
}

/** Lists webhooks that are not deleted, newest first. `before`: id of the last webhook of the previous page. Null limit: all. */
export function listWebhooks(
  { query }: Queries,
  { agentId, enabled, contains }: WebhookFilter,
  before: string | null,
  limit: number | null,
): Promise<WebhookRecord[]> {
  const values: unknown[] = [agentId, enabled, limit, ...(before === null ? [] : [before])];
  return query<WebhookRecord>({
    text: `
      select ${record}
      from ${contains === null ? 'webhooks' : rowsNamed('webhooks', `$${values.push(contains)}`)} w
      where w.deleted_at is null
        and ($1::uuid is null or exists (select from subscriptions s where s.webhook_id = w.id and s.agent_id = $1))
        and ($2::boolean is null or w.enabled = $2)
        ${before === null ? '' : 'and (w.created_at, w.id) < ((select l.created_at from webhooks l where l.id = $4), $4)'}
      order by w.created_at desc, w.id desc
      limit $3`,
    values,
  });
}

/**
 * Locks the webhook and its secrets against changes until the transaction ends. Secrets are locked in the order of webhook and slot,
 * the same order in which they are sealed again, so the two cannot deadlock. Returns false when the webhook does not exist.
 */
export async function lockWebhook(query: Query, id: string): Promise<boolean> {
  const rows = await query({
    text: 'select 1 from webhooks where id = $1 and deleted_at is null for no key update',
    values: [id],
  });
  await query({ text: 'select 1 from webhook_secrets where webhook_id = $1 order by slot for update', values: [id] });
  return rows.length > 0;
}

/**
 * Inserts a webhook without a secret, or restores the deleted one that has this id.
 * @param cell where the events of a new one are stored
 * @returns whether it was restored; null: the id is in use
 */
export async function insertWebhook(
  query: Query,
  id: string,
  columns: WebhookColumns,
  cell = 0,
): Promise<boolean | null> {
  const [row] = await query<{ restored: boolean }>({
    text: `insert into webhooks as w (id, cell, ${webhookColumns.join(', ')})
           values ($1, $2, ${webhookColumns.map((_, i) => `$${i + 3}`).join(', ')})
           on conflict (id) do update
           set ${webhookColumns.map((column) => `${column} = excluded.${column}`).join(', ')},
             deleted_at = null, enabled_at = now(), updated_at = now()
           where w.deleted_at is not null
           returning enabled_at is not null as restored`,
    values: [id, cell, ...webhookColumns.map((column) => parameterOf(columns, column))],
  });
  // Its state was deleted with the webhook. Retention must not subtract the hours from before the deletion from the new state.
  if (row?.restored)
    await query({
      text: `insert into webhook_state (webhook_id, kept_from) values ($1, date_trunc('hour', now()))
             on conflict (webhook_id) do update set kept_from = excluded.kept_from`,
      values: [id],
    });
  return row?.restored ?? null;
}

/** Sets the given columns, updated_at and, if the webhook was disabled and is enabled now, enabled_at. */
export async function updateWebhook(query: Query, id: string, columns: GivenColumns): Promise<void> {
  const given = webhookColumns.filter((column) => columns[column] !== undefined);
  await query({
    text: `update webhooks set ${given.map((column, i) => `${column} = $${i + 2}, `).join('')}
             ${columns.enabled ? 'enabled_at = case when enabled then enabled_at else now() end, ' : ''}updated_at = now()
           where id = $1`,
    values: [id, ...given.map((column) => parameterOf(columns, column))],
  });
}

function parameterOf(columns: GivenColumns, column: (typeof webhookColumns)[number]) {
  const value = columns[column];
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
}

/** Stores the sealed verify token; null removes it. */
export async function setVerifyToken(query: Query, id: string, sealed: Buffer | null): Promise<void> {
  await query({ text: 'update webhooks set verify_token = $2 where id = $1', values: [id, sealed] });
}

/** Soft-deletes the webhook; its secrets, its verify token and its state are deleted permanently. */
export async function deleteWebhook(query: Query, id: string): Promise<void> {
  await query({
    text: 'update webhooks set deleted_at = now(), updated_at = now(), verify_token = null where id = $1',
    values: [id],
  });
  await query({ text: 'delete from webhook_secrets where webhook_id = $1', values: [id] });
  await query({ text: 'delete from webhook_state where webhook_id = $1', values: [id] });
}

/** A webhook with its sealed secrets, current first; an expired previous secret is omitted. */
export interface WebhookRow extends SchemeSettings {
  id: string;
  cell: number;
  enabled: boolean;
  /** Sealed. */
  verifyToken: Buffer | null;
  dedupeHeader: string | null;
  eventTypeFrom: string | null;
  answer: Answer | null;
  refusedStatus: RefusedStatus | null;
  maxPayloadBytes: number | null;
  rateLimitMax: number | null;
  /** Distinct `order_by` of its subscriptions; null: none. */
  orders: Order[] | null;
  /** An alert begins when its last event is older than it expects. */
  expectsEvents: boolean;
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
    name: ids === null ? 'read-newest-webhooks' : 'read-webhooks',
    text: `
      select w.id, w.cell, w.enabled,
        w.signature_scheme as "signatureScheme",
        w.scheme_definition as "schemeDefinition",
        w.tolerance_seconds as "toleranceSeconds",
        w.public_key as "publicKey",
        w.verify_token as "verifyToken",
        w.signature_header as "signatureHeader",
        w.dedupe_header as "dedupeHeader",
        w.event_type_from as "eventTypeFrom",
        w.answer,
        w.refused_status as "refusedStatus",
        w.max_payload_bytes as "maxPayloadBytes",
        w.rate_limit_max as "rateLimitMax",
        w.expect_every_seconds is not null as "expectsEvents",
        ${ordersOf('w.id')} as orders,
        s.sealed, s."secretIds", s."previousExpiresAtMs"
      from (
        select * from webhooks
        where deleted_at is null ${ids === null ? '' : 'and id = any ($2::uuid[])'}
        order by created_at desc, id desc
        limit $1
      ) w
      cross join lateral (
        select coalesce(json_agg(encode(sealed, 'hex') order by slot), '[]') as sealed,
          coalesce(json_agg(id order by slot), '[]') as "secretIds",
          (extract(epoch from max(expires_at)) * 1000)::float8 as "previousExpiresAtMs"
        from webhook_secrets where webhook_id = w.id and (expires_at is null or expires_at > now())
      ) s
      order by w.created_at desc, w.id desc`,
    values: [rowsMax, ...(ids === null ? [] : [arrayOf(ids)])],
  });
  return rows.map((row) => ({ ...row, sealed: row.sealed.map((hex) => Buffer.from(hex, 'hex')) }));
}

/** Ids of webhooks, those with the newest events first, joined by commas. */
export async function readWebhookIds({ query }: Queries, rowsMax: number): Promise<string> {
  const [row] = await query<{ ids: string | null }>({
    text: `
      select string_agg(id::text, ',' order by last_at desc nulls last, created_at desc) as ids
      from (
        select w.id, w.created_at, greatest(w.last_event_at, s.last_event_at) as last_at
        from webhooks w left join webhook_state s on s.webhook_id = w.id
        where w.deleted_at is null order by last_at desc nulls last, w.created_at desc limit $1
      ) w`,
    values: [rowsMax],
  });
  return row!.ids ?? '';
}
