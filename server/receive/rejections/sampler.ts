/**
 * Stores samples of refused signatures for users: at least one for each reason, webhook and minute, as far as the rates of sample-rates.ts
 * allow. The hot path only takes from token buckets and copies a body. A later round reads the secrets, has a thread find the reasons, and
 * stores the rows.
 *
 * In a flood, a refused request that is sampled out costs 0.06 us more. This was within the noise when a request of 1 KiB took 34 us of
 * CPU in total: 34.4 us with sampling, 34.0 us without. The samples are a constant load: 5 to 7/s of 1 to 30 ms of CPU each, by size, in a
 * thread.
 */
import type { Diagnosed } from '../../../workers/diagnose.ts';
import type { Exchange } from '../../base/http/exchange.ts';
import type { RejectionReason } from '../../model/signatures/diagnosis/reasons.ts';
import type { RefusedRequest } from '../../model/signatures/diagnosis/refused.ts';
import { printable } from '../../model/signatures/stored-headers.ts';
import type { Database } from '../../store/connect/pool.ts';
import { uuidText, uuidv7 } from '../../store/ids.ts';
import { type RejectionRow, type RingLimits, storeRejections } from '../../store/queries/rejections/ring.ts';
import { randomSource, requestKey } from '../ingest/rows.ts';
import { signedUrl } from '../ingest/signature.ts';
import type { Webhook } from '../ingest/webhook.ts';
import { readKeyrings, requestOf } from './keyrings.ts';
import { SampleRates } from './sample-rates.ts';

/** Time to collect samples before a round. */
const GATHER_MS = 250;
/** Samples of one round: the thread's timeout is for 25. */
const ROUND_MAX = 25;
/** Characters stored of a signed URL. HEADER_BYTES_MAX does not limit the request line, so a longer one is possible; it verifies nothing. */
const URL_CHARACTERS_MAX = 8_192;
/** Bytes waiting for a round. Samples over the limit are dropped. Headers count as in memory: two bytes per character. */
export const WAITING_BYTES_MAX = 4_194_304;
/** Bytes waiting for a round at which only samples are taken that are stored in any case: large bodies of one webhook leave room. */
const UNSURE_BYTES_MAX = WAITING_BYTES_MAX / 2;

export interface RejectionObserver {
  /** `samples` refused signatures were not sampled. */
  passedOver(why: 'sampled_out' | 'queue_full', samples: number): void;
  stored(reasons: readonly RejectionReason[]): void;
  /** `samples` samples were lost: the database or the thread failed. */
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
  id: string;
  webhookId: string;
  receivedAtMs: number;
  sourceIp: string;
  headers: readonly string[];
  body: Buffer | null;
  bodyBytes: number;
  batch: boolean;
  dedupeKey: Uint8Array | null;
  url: string | null;
  /** A body that is too large to be kept cannot be judged again. */
  exceedsBounds: boolean;
  /** Stored only if it is the first of its reason, webhook and minute. */
  onlyIfFirst: boolean;
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

  /** Bytes waiting for a round. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /**
   * Samples a refused request, or passes over it. Synchronous; the body may be reused afterwards.
   * @param verdict how the check of the signature ended
   */
  offer(exchange: Exchange, webhook: Webhook, body: Uint8Array, verdict: string): void {
    const { observer, bodyBytesMax } = this.#parts;
    const choice = this.#rates.choose(webhook.id, verdict, exchange.client.address, this.#parts.nowMs());
    if (choice === 'sampled_out') return observer.passedOver('sampled_out', 1);
    const kept = body.length <= bodyBytesMax;
    const heldBytes = (kept ? body.length : 0) + headerBytes(exchange.headers);
    const bytesMax = choice === 'stored' ? WAITING_BYTES_MAX : UNSURE_BYTES_MAX;
    if (this.#closed || this.#waitingBytes + heldBytes > bytesMax) return observer.passedOver('queue_full', 1);
    const receivedAtMs = Date.now();
    const { scheme } = webhook;
    const url = scheme.usesUrl ? signedUrl(this.#parts.publicUrl, exchange) : '';
    this.#waitingBytes += heldBytes;
    this.#waiting.push({
      id: uuidText(uuidv7(receivedAtMs, this.#nextRandom())),
      webhookId: webhook.id,
      receivedAtMs,
      sourceIp: exchange.client.address,
      headers: exchange.headers,
      body: kept ? Buffer.from(body) : null,
      bodyBytes: body.length,
      batch: exchange.route.endsWith('/batch'),
      dedupeKey: requestKey(exchange, webhook, body),
      url: scheme.usesUrl ? url.slice(0, URL_CHARACTERS_MAX) : null,
      exceedsBounds: scheme.exceedsBounds?.(url, body) ?? false,
      onlyIfFirst: choice === 'stored_if_first',
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
  #schedule(): void {
    if (this.#timer !== null || this.#round !== null || this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#round = this.#store().finally(() => {
        this.#round = null;
        if (this.#waiting.length > 0) this.#schedule();
      });
    }, GATHER_MS);
  }

  async #store(): Promise<void> {
    const samples = this.#waiting.splice(0, ROUND_MAX);
    const { database, keys, diagnose, observer, limits } = this.#parts;
    try {
      const keyrings = await readKeyrings(database.query, keys, [
        ...new Set(samples.map(({ webhookId }) => webhookId)),
      ]);
      // Skips webhooks that were deleted since the sample was taken.
      const known = samples.filter(({ webhookId }) => keyrings.has(webhookId));
      const requests = known.map((sample) => requestOf(keyrings.get(sample.webhookId)!, sample));
      const rows = (await diagnose(requests)).map((diagnosed, i) => rowOf(known[i]!, diagnosed));
      const stored = await storeRejections(database, rows, limits);
      observer.stored(stored);
      if (stored.length < rows.length) observer.passedOver('sampled_out', rows.length - stored.length);
    } catch (error) {
      // Losing samples is acceptable: no request is lost.
      observer.failed(samples.length, error as Error);
    } finally {
      for (const { heldBytes } of samples) this.#waitingBytes -= heldBytes;
    }
  }
}

function rowOf(sample: RejectionSample, { diagnosis, kept }: Diagnosed): RejectionRow {
  return {
    id: sample.id,
    webhookId: sample.webhookId,
    receivedAt: new Date(sample.receivedAtMs).toISOString(),
    sourceIp: sample.sourceIp,
    reason: diagnosis.reason,
    header: diagnosis.header === null ? null : printable(diagnosis.header),
    otherwiseValid: diagnosis.otherwiseValid,
    otherWebhookId: diagnosis.otherWebhookId ?? null,
    headers: kept.headers,
    signatures: kept.signatures,
    body: kept.keepsBody ? sample.body : null,
    bytes: sample.bodyBytes,
    batch: sample.batch,
    dedupeKey: sample.dedupeKey,
    url: sample.url,
    onlyIfFirst: sample.onlyIfFirst,
  };
}

function headerBytes(headers: readonly string[]): number {
  let characters = 0;
  for (const text of headers) characters += text.length;
  return characters * 2;
}
