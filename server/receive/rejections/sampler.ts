/**
 * Stores samples of refused signatures for users: at least one for each reason, webhook and minute, as far as the rates of sample-rates.ts
 * allow. The hot path only takes from token buckets and copies a body, 0.06 us a request (bench/NOTES.md). A later round reads the secrets,
 * has a thread find the reasons, and stores the rows.
 */
import type { Diagnosed } from '../../../workers/diagnose.ts';
import { problemLater } from '../../base/http/problem.ts';
import { restoredHeaders } from '../../model/signatures/diagnosis/kept-request.ts';
import type { RejectionReason } from '../../model/signatures/diagnosis/reasons.ts';
import type { RefusedRequest } from '../../model/signatures/diagnosis/refused.ts';
import { printable } from '../../model/signatures/stored-headers.ts';
import type { Database, Query } from '../../store/connect/pool.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import { uuidText, uuidv7 } from '../../store/ids.ts';
import { type RejectionDetail, readKeyringRows } from '../../store/queries/rejections/rejections.ts';
import { type RejectionRow, type RingLimits, storeRejections } from '../../store/queries/rejections/ring.ts';
import { unseal } from '../../store/secrets/seal.ts';
import { type ReceivedRequest, signedUrl } from '../ingest/signature.ts';
import { randomSource, requestKey } from '../ingest/store.ts';
import { SampleRates } from './sample-rates.ts';

/** Time to collect samples before a round, and before the next attempt while the database is away. */
const GATHER_MS = 250;
const AWAY_MS = 2_000;
/** Samples, or rejections checked again, in one round of the thread: its timeout allows for 25. */
export const ROUND_MAX = 25;
/** Characters stored of a signed URL. A longer one is possible, because HEADER_BYTES_MAX excludes the request line; cut, it cannot verify. */
const URL_CHARACTERS_MAX = 8_192;
/** Bytes waiting for a round. Samples over the limit are dropped. Headers and URL count as in memory: two bytes per character. */
export const WAITING_BYTES_MAX = 4_194_304;
/** What a sample takes beside its body, headers and URL. */
export const SAMPLE_BYTES = 1_024;
/** Above this number of waiting bytes only samples that are stored in any case are taken, so that large bodies of one webhook leave room. */
const UNSURE_BYTES_MAX = WAITING_BYTES_MAX / 2;

export interface RejectionObserver {
  /** This number of refused signatures was not sampled. */
  passedOver(why: 'sampled_out' | 'queue_full', samples: number): void;
  stored(reasons: readonly RejectionReason[]): void;
  /** This number of samples was lost: the database refused them, or the thread failed. */
  failed(samples: number, error: Error): void;
}

interface Parts {
  database: Database;
  /** Keys that encrypt webhook secrets, current first. */
  keys: readonly Buffer[];
  diagnose: (requests: readonly RefusedRequest[]) => Promise<Diagnosed[]>;
  observer: RejectionObserver;
  limits: RingLimits;
  /** REJECTION_BODY_BYTES_MAX. A larger body is not stored, and its rejection cannot be checked again. */
  bodyBytesMax: number;
  /** FRONTEND_PUBLIC_API_URL: signed URLs begin with it. */
  publicUrl: string;
  /** Monotonic clock, in milliseconds. */
  nowMs: () => number;
}

interface RejectionSample {
  /** The columns that are stored unchanged. */
  row: Pick<
    RejectionRow,
    'id' | 'webhookId' | 'receivedAt' | 'sourceIp' | 'body' | 'bytes' | 'batch' | 'dedupeKey' | 'url' | 'onlyIfFirst'
  >;
  receivedAtMs: number;
  headers: readonly string[];
  /** Whether the body exceeds the bounds of its scheme. Decided now, because a large body is not kept. */
  exceedsBounds: boolean;
  heldBytes: number;
}

export class RejectionSampler {
  readonly #parts: Parts;
  readonly #nextRandom = randomSource();
  readonly #rates = new SampleRates();
  #waiting: RejectionSample[] = [];
  #waitingBytes = 0;
  #timer: NodeJS.Timeout | null = null;
  #round: Promise<void> | null = null;
  #closed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /**
   * Samples a refused request, or skips it. Synchronous: the body may be reused afterwards.
   * @param verdict how the check of the signature ended
   */
  offer(request: Pick<ReceivedRequest, 'exchange' | 'webhook' | 'body' | 'json'>, verdict: string): void {
    const { exchange, webhook, body, json } = request;
    const { observer, bodyBytesMax } = this.#parts;
    const choice = this.#rates.choose(webhook.id, verdict, exchange.client.address, this.#parts.nowMs());
    if (choice === 'sampled_out') return observer.passedOver('sampled_out', 1);
    const { scheme } = webhook;
    const url = scheme.usesUrl ? signedUrl(this.#parts.publicUrl, exchange) : '';
    const kept = body.length <= bodyBytesMax;
    const heldBytes = SAMPLE_BYTES + (kept ? body.length : 0) + textBytes([url, ...exchange.headers]);
    const bytesMax = choice === 'stored' ? WAITING_BYTES_MAX : UNSURE_BYTES_MAX;
    if (this.#closed || this.#waitingBytes + heldBytes > bytesMax) return observer.passedOver('queue_full', 1);
    const receivedAtMs = Date.now();
    this.#waitingBytes += heldBytes;
    this.#waiting.push({
      row: {
        id: uuidText(uuidv7(receivedAtMs, this.#nextRandom())),
        webhookId: webhook.id,
        receivedAt: new Date(receivedAtMs).toISOString(),
        sourceIp: exchange.client.address,
        body: kept ? Buffer.from(body) : null,
        bytes: body.length,
        batch: exchange.route.endsWith('/batch'),
        dedupeKey: requestKey(exchange, webhook, json),
        url: scheme.usesUrl ? url.slice(0, URL_CHARACTERS_MAX) : null,
        onlyIfFirst: choice === 'stored_if_first',
      },
      receivedAtMs,
      headers: exchange.headers,
      exceedsBounds: scheme.exceedsBounds?.(url, body) ?? false,
      heldBytes,
    });
    this.#schedule();
  }

  /** Waits for the running round. Samples collected after its start are dropped. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#round;
  }

  /** One round at a time. While the database is slow or unavailable, samples collect up to WAITING_BYTES_MAX. */
  #schedule(ms = GATHER_MS): void {
    if (this.#timer !== null || this.#round !== null || this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#round = this.#store().then((isAway) => {
        this.#round = null;
        if (this.#waiting.length > 0) this.#schedule(isAway ? AWAY_MS : GATHER_MS);
      });
    }, ms);
  }

  /** Resolves with true when the database is away: the samples wait for it. */
  async #store(): Promise<boolean> {
    const samples = this.#waiting.splice(0, ROUND_MAX);
    const { database, keys, diagnose, observer, limits } = this.#parts;
    try {
      const keyrings = await readKeyrings(database.query, keys, [...new Set(samples.map(({ row }) => row.webhookId))]);
      // Skips webhooks that were deleted since the sample was taken.
      const known = samples.filter(({ row }) => keyrings.has(row.webhookId));
      const requests = known.map((sample): RefusedRequest => {
        const { row, headers, exceedsBounds, receivedAtMs } = sample;
        const { body, url } = row;
        return { ...keyrings.get(row.webhookId)!, headers, body, exceedsBounds, url: url ?? '', receivedAtMs };
      });
      const rows = (await diagnose(requests)).map((diagnosed, i) => rowOf(known[i]!, diagnosed));
      const stored = await storeRejections(database, rows, limits);
      observer.stored(stored);
      if (stored.length < rows.length) observer.passedOver('sampled_out', rows.length - stored.length);
    } catch (error) {
      if (error instanceof DatabaseUnavailable && !this.#closed) {
        this.#waiting.unshift(...samples);
        return true;
      }
      // Losing samples is acceptable: no request is lost.
      observer.failed(samples.length, error as Error);
    }
    for (const { heldBytes } of samples) this.#waitingBytes -= heldBytes;
    return false;
  }
}

function rowOf({ row }: RejectionSample, { diagnosis, kept }: Diagnosed): RejectionRow {
  return {
    ...row,
    reason: diagnosis.reason,
    header: diagnosis.header === null ? null : printable(diagnosis.header),
    otherwiseValid: diagnosis.otherwiseValid,
    otherWebhookId: diagnosis.otherWebhookId ?? null,
    headers: kept.headers,
    signatures: kept.signatures,
    body: kept.keepsBody ? row.body : null,
  };
}

function textBytes(texts: readonly string[]): number {
  let characters = 0;
  for (const text of texts) characters += text.length;
  return characters * 2;
}

/** A secret cannot be opened, or the thread of the check failed. */
export const verificationUnavailable = problemLater('verification_unavailable', 1);

/** A webhook's scheme, all its secrets including expired ones, and the secrets of other webhooks that it may be confused with. */
type WebhookKeyring = Pick<RefusedRequest, 'settings' | 'secrets' | 'others'>;

/** A stored rejection as a request. Its time is judged at the time of receipt. */
export function storedRequest(rejection: RejectionDetail, body: Buffer, keyring: WebhookKeyring): RefusedRequest {
  const receivedAtMs = Date.parse(rejection.received_at);
  return { ...keyring, headers: restoredHeaders(rejection), body, url: rejection.url ?? '', receivedAtMs };
}

/**
 * Other webhooks whose secrets are tried, most recently changed first, because webhooks are mixed up when they are set up. Each
 * costs one HMAC of the body per sample, two while secrets overlap. 100 take 4 ms of CPU in the thread for 64 KiB, 0.8 ms for 1 KiB.
 */
export const OTHER_WEBHOOKS_MAX = 100;

/**
 * Reads keyrings by webhook id. Omits webhooks that are deleted or have an unreadable secret.
 * @param keys derived for webhook secrets, current first.
 * @param othersMax maximum number of other webhooks; 0 if the caller only needs to verify a request.
 */
export async function readKeyrings(
  query: Query,
  keys: readonly Buffer[],
  webhookIds: readonly string[],
  othersMax = OTHER_WEBHOOKS_MAX,
): Promise<Map<string, WebhookKeyring>> {
  const rows = await readKeyringRows(query, webhookIds, othersMax);
  const webhooks = rows.flatMap(({ id, sealed, ...settings }) => {
    const secrets = sealed.flatMap(({ hex, expired }) => {
      const bytes = unseal(Buffer.from(hex, 'hex'), keys, id);
      return bytes === null ? [] : [{ bytes, expired }];
    });
    return secrets.length === sealed.length ? [{ id, secrets, settings }] : [];
  });
  const active = webhooks.map(({ id, secrets }) => ({
    id,
    secrets: secrets.filter(({ expired }) => !expired).map(({ bytes }) => bytes),
  }));
  const asked = new Set(webhookIds);
  return new Map(
    webhooks
      .filter(({ id }) => asked.has(id))
      .map(({ id, ...webhook }) => [id, { ...webhook, others: active.filter((other) => other.id !== id) }]),
  );
}
