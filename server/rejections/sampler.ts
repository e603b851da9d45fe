/**
 * Keeps samples of refused signatures for people to look at. The hot path only asks two token buckets and copies a body. Later, a
 * round at a time, secrets are read, a thread finds the reasons, and the rows are stored.
 *
 * In a flood a refused request costs 0.06 us more (sampled out), of the 34 us of CPU that 1 KiB takes in all: within the noise,
 * 34.4 and 34.0 us with and without. The samples themselves are a steady load: 5 a second of 1 to 30 ms of CPU, by size, in a thread.
 */
import type { Diagnosed } from '../../workers/diagnose.ts';
import { uuidText, uuidv7 } from '../db/ids.ts';
import type { Database } from '../db/pool.ts';
import { type RejectionRow, type RingLimits, storeRejections } from '../db/queries/rejections.ts';
import type { Exchange } from '../http/exchange.ts';
import { dedupeKey, dedupeValue } from '../ingest/dedupe.ts';
import { randomSource } from '../ingest/rows.ts';
import type { Webhook } from '../ingest/webhook.ts';
import type { RefusedRequest } from '../signatures/diagnosis/diagnose.ts';
import type { RejectionReason } from '../signatures/diagnosis/reasons.ts';
import { printable } from '../signatures/stored-headers.ts';
import { readKeyrings } from './keyrings.ts';
import { TokenBucket } from './token-bucket.ts';

/** Samples of one process. */
const ALL_SAMPLES = { perSecond: 5, burst: 25 };
/** And of one webhook: a loud one leaves room for the others. */
const WEBHOOK_SAMPLES = { perSecond: 1, burst: 10 };
/** Buckets that are remembered; past it all begin anew, at the price of one burst more. */
const BUCKETS_MAX = 10_000;
/** What gathers before a round, in time. */
const GATHER_MS = 250;
/** What waits for its round; one sample more is dropped. Headers count as they are in memory, two bytes a character. */
export const WAITING_BYTES_MAX = 4_194_304;

export interface RejectionObserver {
  /** A signature was refused, and was not taken as a sample. */
  passedOver(why: 'sampled_out' | 'queue_full'): void;
  stored(reasons: readonly RejectionReason[]): void;
  /** So many samples were lost: the database or the thread failed. */
  failed(samples: number, error: Error): void;
}

interface Parts {
  database: Database;
  /** Of webhook secrets, current first. */
  keys: readonly Buffer[];
  diagnose: (requests: readonly RefusedRequest[]) => Promise<Diagnosed[]>;
  observer: RejectionObserver;
  limits: RingLimits;
  /** REJECTION_BODY_BYTES_MAX: a larger body is not kept, and its rejection cannot be checked again. */
  bodyBytesMax: number;
  /** Of a clock that never goes back. */
  nowMs: () => number;
}

interface Sample {
  id: string;
  webhookId: string;
  receivedAtMs: number;
  sourceIp: string;
  headers: readonly string[];
  body: Buffer | null;
  bodyBytes: number;
  batch: boolean;
  dedupeKey: Uint8Array | null;
  heldBytes: number;
}

export class RejectionKeeper {
  readonly #parts: Parts;
  readonly #nextRandom = randomSource();
  readonly #all = new TokenBucket(ALL_SAMPLES);
  readonly #buckets = new Map<string, TokenBucket>();
  #waiting: Sample[] = [];
  #waitingBytes = 0;
  #timer: NodeJS.Timeout | null = null;
  #round: Promise<void> | null = null;
  #closed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Bytes that wait for their round. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Takes a refused request as a sample, or not; never waits. The body may be reused afterwards. */
  offer(exchange: Exchange, webhook: Webhook, body: Uint8Array): void {
    const { observer, bodyBytesMax } = this.#parts;
    const nowMs = this.#parts.nowMs();
    if (!this.#bucketOf(webhook.id).take(nowMs) || !this.#all.take(nowMs)) return observer.passedOver('sampled_out');
    const kept = body.length <= bodyBytesMax;
    const heldBytes = (kept ? body.length : 0) + headerBytes(exchange.headers);
    if (this.#closed || this.#waitingBytes + heldBytes > WAITING_BYTES_MAX) return observer.passedOver('queue_full');
    const receivedAtMs = Date.now();
    const dedupe = dedupeValue(exchange, webhook);
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
      dedupeKey: dedupe === null ? null : dedupeKey(dedupe),
      heldBytes,
    });
    this.#schedule();
  }

  /** Waits for the round under way; what gathered after it is dropped. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#round;
  }

  #bucketOf(webhookId: string): TokenBucket {
    let bucket = this.#buckets.get(webhookId);
    if (bucket === undefined) {
      if (this.#buckets.size >= BUCKETS_MAX) this.#buckets.clear();
      bucket = new TokenBucket(WEBHOOK_SAMPLES);
      this.#buckets.set(webhookId, bucket);
    }
    return bucket;
  }

  /** One round at a time: while the database is slow or away the next one gathers, up to its limit. */
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
    const samples = this.#waiting;
    this.#waiting = [];
    const { database, keys, diagnose, observer, limits } = this.#parts;
    try {
      const keyrings = await readKeyrings(database.query, keys, [
        ...new Set(samples.map(({ webhookId }) => webhookId)),
      ]);
      // A webhook that was deleted in between needs no explanation.
      const known = samples.filter(({ webhookId }) => keyrings.has(webhookId));
      const requests = known.map(({ headers, body, webhookId }) => ({ headers, body, ...keyrings.get(webhookId)! }));
      const rows = (await diagnose(requests)).map((diagnosed, i) => rowOf(known[i]!, diagnosed));
      await storeRejections(database, rows, limits);
      observer.stored(rows.map(({ reason }) => reason));
    } catch (error) {
      // Samples may be lost; requests are not.
      observer.failed(samples.length, error as Error);
    } finally {
      for (const { heldBytes } of samples) this.#waitingBytes -= heldBytes;
    }
  }
}

function rowOf(sample: Sample, { diagnosis, kept }: Diagnosed): RejectionRow {
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
  };
}

function headerBytes(headers: readonly string[]): number {
  let characters = 0;
  for (const text of headers) characters += text.length;
  return characters * 2;
}
