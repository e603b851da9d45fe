/**
 * The webhooks as the hot path knows them: no table is read for a webhook that is here. LISTEN/NOTIFY keeps it true
 * (see db/listen.ts); a process that has not heard from its primary for a second checks before it believes.
 */

import { isUuid, uuidBytes } from '../core/ids.ts';
import { unseal } from '../core/seal.ts';
import type { Database } from '../db/pool.ts';
import { readWebhooks, type WebhookRow } from '../db/queries/read-webhooks.ts';
import type { Policy } from '../ratelimit/limiter.ts';

export interface Webhook {
  readonly id: string;
  readonly idBytes: Uint8Array;
  readonly enabled: boolean;
  /** Lower case; when set, only it carries the signature. */
  readonly signatureHeader: string | null;
  readonly capBytes: number;
  /** Its own limit; null: the common one. */
  readonly policy: Policy | null;
  /** What its own limit counts within, besides the client. */
  readonly limitScope: string;
  /** Current first. Empty: no signature is asked for. The same array until a secret changes or expires. */
  secrets: readonly Uint8Array[];
  /** When the last of `secrets` ends; null: never. */
  readonly previousExpiresAtMs: number | null;
}

export interface DirectoryOptions {
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

interface Entry {
  webhook: Webhook | null;
  checkedAtMs: number;
  /** Announced as changed: good for the cap and the limit until it is read again, but not to be believed. */
  changed: boolean;
}

/** Nothing heard for this long: entries are checked again before use. */
const SILENCE_MS = 1_000;
const ENTRIES_MAX = 20_000;
/** Ids that one look-up may ask for; more misses at a time than this are refused. */
const MISSES_MAX = 1_000;

/** More unknown ids at a time than are looked up; the caller answers 503. */
export class DirectoryBusy extends Error {}

export class WebhookDirectory {
  readonly #options: DirectoryOptions;
  readonly #entries = new Map<string, Entry>();
  /** Look-ups under way. An id that is invalidated leaves, so that an older answer is not kept. */
  readonly #loads = new Map<string, Promise<Webhook | null>>();
  #batch: { ids: string[]; rows: Promise<Map<string, Webhook>> } | null = null;
  #heardAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: DirectoryOptions) {
    this.#options = options;
  }

  /** Reads all webhooks, so that a process that just started asks nothing under load. */
  async preload(): Promise<void> {
    const rows = await readWebhooks(this.#options.database, null, ENTRIES_MAX);
    for (const row of rows) this.#keep(row.id, this.#open(row));
  }

  /**
   * What is known without asking, old or not: enough for the cap and the limit. Null: there is no such webhook;
   * undefined: the database must say.
   */
  known(id: string): Webhook | null | undefined {
    const entry = this.#entries.get(id);
    return entry === undefined && !isUuid(id) ? null : entry?.webhook;
  }

  /** The webhook as it is now, null when there is none; a promise when the database must be asked, of undefined when it cannot be. */
  find(id: string, nowMs: number): Webhook | null | Promise<Webhook | null | undefined> {
    const entry = this.#entries.get(id);
    if (entry === undefined) return isUuid(id) ? this.#load(id).catch(() => undefined) : null;
    if (entry.changed || (nowMs - this.#heardAtMs > SILENCE_MS && nowMs - entry.checkedAtMs > SILENCE_MS))
      return this.#load(id).catch(() => undefined);
    return entry.webhook === null ? null : withoutExpired(entry.webhook, nowMs);
  }

  /** Asks the database; misses of one turn are one query. */
  #load(id: string): Promise<Webhook | null> {
    const underWay = this.#loads.get(id);
    if (underWay !== undefined) return underWay;
    if (this.#loads.size >= MISSES_MAX) return Promise.reject(new DirectoryBusy());
    const load = this.#loadInBatch(id).then(
      (webhook) => {
        if (this.#loads.get(id) === load) this.#keep(id, webhook);
        return webhook;
      },
      (error) => {
        if (this.#loads.get(id) === load) this.#loads.delete(id);
        throw error;
      },
    );
    this.#loads.set(id, load);
    return load;
  }

  /** A webhook changed: it is read again before it is believed; resolves when the new state holds. */
  async invalidate(id: string): Promise<void> {
    const entry = this.#entries.get(id);
    if (entry !== undefined) entry.changed = true;
    this.#loads.delete(id);
    await this.#load(id);
  }

  /** Everything may have changed: the listener was away. */
  invalidateAll(): void {
    for (const entry of this.#entries.values()) entry.changed = true;
    this.#loads.clear();
  }

  /** The primary listens to the database and says so. */
  heard(nowMs: number): void {
    this.#heardAtMs = nowMs;
  }

  async #loadInBatch(id: string): Promise<Webhook | null> {
    this.#batch ??= this.#openBatch();
    this.#batch.ids.push(id);
    return (await this.#batch.rows).get(id.toLowerCase()) ?? null;
  }

  #openBatch(): { ids: string[]; rows: Promise<Map<string, Webhook>> } {
    const ids: string[] = [];
    const rows = new Promise<void>((resolve) => setImmediate(resolve)).then(async () => {
      this.#batch = null;
      const found = await readWebhooks(this.#options.database, ids, ids.length);
      return new Map(
        found
          .map((row) => [row.id, this.#open(row)] as const)
          .filter((pair): pair is [string, Webhook] => pair[1] !== null),
      );
    });
    return { ids, rows };
  }

  #keep(id: string, webhook: Webhook | null): void {
    this.#loads.delete(id);
    // The oldest go first; one that is in use comes back with its next request.
    if (this.#entries.size >= ENTRIES_MAX) this.#entries.delete(this.#entries.keys().next().value as string);
    this.#entries.set(id, { webhook, checkedAtMs: Date.now(), changed: false });
  }

  #open(row: WebhookRow): Webhook | null {
    const { keys, capBytes, windowSeconds, onUnreadable } = this.#options;
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
      capBytes: Math.min(capBytes, row.maxPayloadBytes ?? capBytes),
      policy: row.rateLimitMax === null ? null : { name: 'ingest', max: row.rateLimitMax, windowSeconds },
      limitScope: `ingest:${row.id}`,
      secrets: secrets as Buffer[],
      previousExpiresAtMs: row.previousExpiresAtMs,
    };
  }
}

/** Drops a previous secret whose overlap has ended. */
function withoutExpired(webhook: Webhook, nowMs: number): Webhook {
  const { previousExpiresAtMs, secrets } = webhook;
  if (previousExpiresAtMs !== null && previousExpiresAtMs <= nowMs && secrets.length > 1)
    webhook.secrets = secrets.slice(0, 1);
  return webhook;
}
