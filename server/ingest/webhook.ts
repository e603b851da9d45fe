/** A webhook as the request path needs it, opened once when its row is read. */

import { Directory } from '../db/directory.ts';
import { uuidBytes } from '../db/ids.ts';
import type { Database } from '../db/pool.ts';
import { readWebhooks, type WebhookRow } from '../db/queries/read-webhooks.ts';
import type { Policy } from '../ratelimit/limiter.ts';
import { unseal } from '../secrets/seal.ts';

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
  /** Those that open, current first. None at all: no signature is asked for. The same array until a secret changes or expires. */
  secrets: readonly Uint8Array[];
  /** In the order of `secrets`. */
  readonly secretIds: readonly string[];
  /** Until then a secret is valid that no key opens: for ever when it is the current one, 0 when there is none. */
  readonly unreadableUntilMs: number;
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
  /** A stored secret began to be unreadable with every key. */
  onUnreadable: (webhookId: string) => void;
}

interface WebhookDirectory {
  directory: Directory<Webhook>;
  /** Ids of the known webhooks that have a secret which no key opens. */
  unreadable: ReadonlySet<string>;
}

/** The webhooks that are not deleted. */
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

/** Its secrets at this time: a previous one whose overlap has ended is dropped. */
export function secretsAt(webhook: Webhook, nowMs: number): readonly Uint8Array[] {
  const { previousExpiresAtMs, secrets } = webhook;
  const current = isCurrent(webhook, 0) ? 1 : 0;
  if (previousExpiresAtMs !== null && previousExpiresAtMs <= nowMs && secrets.length > current)
    webhook.secrets = secrets.slice(0, current);
  return webhook.secrets;
}

/** @param place in `secrets` */
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
