/** A webhook as the request path uses it. Its secrets are decrypted once, when its row is read. */

import { Directory } from '../db/directory.ts';
import { uuidBytes } from '../db/ids.ts';
import type { Database } from '../db/pool.ts';
import { readWebhooks, type WebhookRow } from '../db/queries/webhooks.ts';
import type { Policy } from '../ratelimit/limiter.ts';
import { unseal } from '../secrets/seal.ts';

export interface Webhook {
  readonly id: string;
  readonly idBytes: Uint8Array;
  readonly enabled: boolean;
  /** Lower case. When set, the signature is read from this header only. */
  readonly signatureHeader: string | null;
  /** Lower case. A request with a known value of this header is not stored again. */
  readonly dedupeHeader: string | null;
  readonly capBytes: number;
  /** The webhook's own rate limit; null: the default limit applies. */
  readonly policy: Policy | null;
  /** Scope that its own limit counts in, together with the client. */
  readonly limitScope: string;
  /**
   * Readable secrets, current first. A webhook without readable or unreadable secrets requires no signature.
   * The array stays the same object until a secret changes or expires.
   */
  secrets: readonly Uint8Array[];
  /** Ids of `secrets`, in the same order. */
  readonly secretIds: readonly string[];
  /** When the last valid secret that no key decrypts expires: Infinity for the current secret; 0 if every secret is readable. */
  readonly unreadableUntilMs: number;
  /** When the previous secret expires; null: there is none. */
  readonly previousExpiresAtMs: number | null;
}

interface WebhookSource {
  database: Database;
  /** Keys that encrypt webhook secrets, current first. */
  keys: readonly Buffer[];
  /** WEBHOOK_MAX_PAYLOAD_BYTES */
  capBytes: number;
  /** Window of a webhook's own rate limit. */
  windowSeconds: number;
  /** Called when a stored secret becomes unreadable: no key decrypts it. */
  onUnreadable: (webhookId: string) => void;
}

interface WebhookDirectory {
  directory: Directory<Webhook>;
  /** Ids of known webhooks with an unreadable secret. */
  unreadable: ReadonlySet<string>;
}

/** Creates the directory of the webhooks that are not deleted. */
export function webhookDirectory(source: WebhookSource): WebhookDirectory {
  const unreadable = new Set<string>();
  const directory = new Directory<Webhook>(async (ids, rowsMax) => {
    const rows = await readWebhooks(source.database, ids, rowsMax);
    const before = new Set(unreadable);
    for (const id of ids ?? before) unreadable.delete(id);
    return rows.map((row) => {
      const webhook = open(row, source);
      if (webhook.unreadableUntilMs > 0) {
        unreadable.add(row.id);
        if (!before.has(row.id)) source.onUnreadable(row.id);
      }
      return webhook;
    });
  });
  return { directory, unreadable };
}

/** The webhook's readable secrets at `nowMs`. An expired previous secret is removed. */
export function secretsAt(webhook: Webhook, nowMs: number): readonly Uint8Array[] {
  const { previousExpiresAtMs, secrets } = webhook;
  const current = isCurrent(webhook, 0) ? 1 : 0;
  if (previousExpiresAtMs !== null && previousExpiresAtMs <= nowMs && secrets.length > current)
    webhook.secrets = secrets.slice(0, current);
  return webhook.secrets;
}

/** Whether the secret at this index of `secrets` is the current one. */
export function isCurrent(webhook: Webhook, place: number): boolean {
  return place === 0 && webhook.unreadableUntilMs !== Number.POSITIVE_INFINITY;
}

function open(row: WebhookRow, { keys, capBytes, windowSeconds }: WebhookSource): Webhook {
  const opened = row.sealed.map((sealed, place) => ({
    secret: unseal(sealed, keys, row.id),
    id: row.secretIds[place]!,
    untilMs: place === 0 ? Number.POSITIVE_INFINITY : row.previousExpiresAtMs!,
  }));
  const readable = opened.filter(({ secret }) => secret !== null);
  const lost = opened.filter(({ secret }) => secret === null);
  return {
    id: row.id,
    idBytes: uuidBytes(row.id),
    enabled: row.enabled,
    signatureHeader: row.signatureHeader,
    dedupeHeader: row.dedupeHeader,
    capBytes: Math.min(capBytes, row.maxPayloadBytes ?? capBytes),
    policy: row.rateLimitMax === null ? null : { name: 'ingest', max: row.rateLimitMax, windowSeconds },
    limitScope: `ingest:${row.id}`,
    secrets: readable.map(({ secret }) => secret!),
    secretIds: readable.map(({ id }) => id),
    unreadableUntilMs: Math.max(0, ...lost.map(({ untilMs }) => untilMs)),
    previousExpiresAtMs: row.previousExpiresAtMs,
  };
}
