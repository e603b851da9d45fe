import type { Query } from '../pool.ts';
import { arrayOf, isoColumn, isoText } from './sql.ts';

/** A webhook as the API shows it, without its secret. */
export interface WebhookRecord {
  id: string;
  name: string;
  description: string;
  enabled: boolean;
  has_secret: boolean;
  previous_secret_expires_at: string | null;
  signature_header: string | null;
  dedupe_header: string | null;
  max_payload_bytes: number | null;
  rate_limit_max: number | null;
  retention_days: number | null;
  /** Active agents subscribed to it. */
  agent_ids: string[];
  created_at: string;
  updated_at: string;
}

/** The columns that users can set. */
const webhookColumns = [
  'name',
  'description',
  'enabled',
  'signature_header',
  'dedupe_header',
  'max_payload_bytes',
  'rate_limit_max',
  'retention_days',
] as const;
type WebhookColumns = Pick<WebhookRecord, (typeof webhookColumns)[number]>;
type GivenColumns = { [Column in keyof WebhookColumns]?: WebhookColumns[Column] | undefined };

export interface WebhookFilter {
  /** Webhooks that this agent is subscribed to. */
  agentId: string | null;
  enabled: boolean | null;
  /** Substring of the name, case-insensitive. */
  contains: string | null;
}

const record = `
  w.id, w.name, w.description, w.enabled, w.signature_header, w.dedupe_header, w.max_payload_bytes, w.rate_limit_max,
  w.retention_days, ${isoColumn('w.created_at')}, ${isoColumn('w.updated_at')},
  exists (select from webhook_secrets s where s.webhook_id = w.id and s.slot = 'current') as has_secret,
  (select ${isoText('s.expires_at')} from webhook_secrets s
    where s.webhook_id = w.id and s.slot = 'previous' and s.expires_at > now()) as previous_secret_expires_at,
  (select coalesce(json_agg(a.id order by a.created_at, a.id), '[]') from subscriptions s join agents a on a.id = s.agent_id
    where s.webhook_id = w.id and a.revoked_at is null) as agent_ids`;

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
  { query }: { query: Query },
  { agentId, enabled, contains }: WebhookFilter,
  before: string | null,
  limit: number | null,
): Promise<WebhookRecord[]> {
  return query<WebhookRecord>({
    text: `
      select ${record}
      from webhooks w
      where w.deleted_at is null
        and ($1::uuid is null or exists (select from subscriptions s where s.webhook_id = w.id and s.agent_id = $1))
        and ($2::boolean is null or w.enabled = $2)
        and ($3::text is null or strpos(lower(w.name), lower($3)) > 0)
        and ($4::uuid is null or (w.created_at, w.id) < (select l.created_at, l.id from webhooks l where l.id = $4))
      order by w.created_at desc, w.id desc
      limit $5`,
    values: [agentId, enabled, contains, before, limit],
  });
}

/**
 * Locks the webhook and its secrets against changes until the transaction ends. Secrets are locked in the order of webhook and slot,
 * the same order in which their uses are counted, so the two cannot deadlock. Returns false when the webhook does not exist.
 */
export async function lockWebhook(query: Query, id: string): Promise<boolean> {
  const rows = await query({
    text: 'select 1 from webhooks where id = $1 and deleted_at is null for no key update',
    values: [id],
  });
  await query({ text: 'select 1 from webhook_secrets where webhook_id = $1 order by slot for update', values: [id] });
  return rows.length > 0;
}

/** Inserts a webhook without a secret. */
export async function insertWebhook(query: Query, id: string, columns: WebhookColumns): Promise<void> {
  await query({
    text: `insert into webhooks (id, ${webhookColumns.join(', ')})
           values ($1, ${webhookColumns.map((_, i) => `$${i + 2}`).join(', ')})`,
    values: [id, ...webhookColumns.map((column) => columns[column])],
  });
}

/** Sets the given columns and updated_at. */
export async function updateWebhook(query: Query, id: string, columns: GivenColumns): Promise<void> {
  const given = webhookColumns.filter((column) => columns[column] !== undefined);
  await query({
    text: `update webhooks set ${given.map((column, i) => `${column} = $${i + 2}, `).join('')}updated_at = now() where id = $1`,
    values: [id, ...given.map((column) => columns[column])],
  });
}

/** Soft-deletes the webhook; its secrets are deleted permanently. */
export async function deleteWebhook(query: Query, id: string): Promise<void> {
  await query({ text: 'update webhooks set deleted_at = now(), updated_at = now() where id = $1', values: [id] });
  await query({ text: 'delete from webhook_secrets where webhook_id = $1', values: [id] });
}

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
    text: `insert into webhook_secrets (webhook_id, slot, sealed) values ($1, 'current', $2)`,
    values: [id, sealed],
  });
}

/** Returns the current sealed secret; undefined when the webhook has none. */
export async function findSealedSecret({ query }: { query: Query }, id: string): Promise<Buffer | undefined> {
  const [row] = await query<{ sealed: Buffer }>({
    text: `select sealed from webhook_secrets where webhook_id = $1 and slot = 'current'`,
    values: [id],
  });
  return row?.sealed;
}
