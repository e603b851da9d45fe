/** A webhook as the request path needs it, opened once when its row is read. */
import { uuidBytes } from '../core/ids.ts';
import { unseal } from '../core/seal.ts';
import { Directory } from '../db/directory.ts';
import type { Database } from '../db/pool.ts';
import { readWebhooks, type WebhookRow } from '../db/queries/read-webhooks.ts';
import type { Policy } from '../ratelimit/limiter.ts';

export interface Webhook {
  readonly id: string;
  readonly idBytes: Uint8Array;
  readonly enabled: boolean;
  /** Lower case; when set, only it carries the signature. */
  readonly signatureHeader: string | null;
  /** Lower case; a request that repeats its value is not stored again. */
  readonly dedupeHeader: string | null;
  readonly capBytes: number;
  /** Its own limit; null: the common one. */
  readonly policy: Policy | null;
  /** What its own limit counts within, besides the client. */
  readonly limitScope: string;
  /** Current first. Empty: no signature is asked for. The same array until a secret changes or expires. */
  secrets: readonly Uint8Array[];
  /** In the order of `secrets`. */
  readonly secretIds: readonly string[];
  /** When the last of `secrets` ends; null: never. */
  readonly previousExpiresAtMs: number | null;
}

interface WebhookSource {
  database: Database;
  /** Keys of webhook secrets, current first. */
  keys: readonly Buffer[];
  /** WEBHOOK_MAX_PAYLOAD_BYTES */
  capBytes: number;
  /** The window that a webhook's own limit counts in. */
  windowSeconds: number;
  /** A stored secret does not open with any key; the webhook is left out. */
  onUnreadable: (webhookId: string) => void;
}

/** The webhooks that are not deleted. */
export function webhookDirectory(source: WebhookSource): Directory<Webhook> {
  return new Directory(async (ids, rowsMax) => {
    const rows = await readWebhooks(source.database, ids, rowsMax);
    return rows.map((row) => open(row, source)).filter((webhook) => webhook !== null);
  });
}

/** Its secrets at this time: a previous one whose overlap has ended is dropped. */
export function secretsAt(webhook: Webhook, nowMs: number): readonly Uint8Array[] {
  const { previousExpiresAtMs, secrets } = webhook;
  if (previousExpiresAtMs !== null && previousExpiresAtMs <= nowMs && secrets.length > 1)
    webhook.secrets = secrets.slice(0, 1);
  return webhook.secrets;
}

function open(row: WebhookRow, { keys, capBytes, windowSeconds, onUnreadable }: WebhookSource): Webhook | null {
  const secrets = row.sealed.map((sealed) => unseal(sealed, keys, row.id));
  if (secrets.includes(null)) {
    onUnreadable(row.id);
    return null;
  }
  return {
    id: row.id,
    idBytes: uuidBytes(row.id),
    enabled: row.enabled,
    signatureHeader: row.signatureHeader,
    dedupeHeader: row.dedupeHeader,
    capBytes: Math.min(capBytes, row.maxPayloadBytes ?? capBytes),
    policy: row.rateLimitMax === null ? null : { name: 'ingest', max: row.rateLimitMax, windowSeconds },
    limitScope: `ingest:${row.id}`,
    secrets: secrets as Buffer[],
    secretIds: row.secretIds,
    previousExpiresAtMs: row.previousExpiresAtMs,
  };
}
