/**
 * POST /in/{webhook_id}, the main job. The order of the steps is the order in which one answer beats another:
 *
 *     accept   snapshot of headers and address                         (server.ts: 404, 431)
 *     body     streams into a slab, stops at the cap                   413   (aborted: counted, no answer)
 *     limit    runs beside body, is awaited before the next            429
 *     webhook  from the directory                                      404, 410
 *     verify   a thread checks the signature, batched by turn          403
 *     persist  group commit, binary COPY                               503   (queue full, store gone)
 *     respond  one write                                               202
 */
import { randomFillSync } from 'node:crypto';
import { uuidText, uuidv7 } from '../core/ids.ts';
import { presentedSignature } from '../core/signature.ts';
import { printable, storedHeaders } from '../core/stored-headers.ts';
import type { Directory } from '../db/directory.ts';
import type { BodyOutcome } from '../http/body.ts';
import type { Exchange } from '../http/exchange.ts';
import { Stage } from '../http/stages.ts';
import { tellLimit } from '../http/tell-limit.ts';
import type { Policy, RateLimiter } from '../ratelimit/limiter.ts';
import { takeIngest } from './limit.ts';
import type { EventWriter, PersistOutcome } from './persist.ts';
import type { Verdict, Verifier } from './verify.ts';
import { secretsAt, type Webhook } from './webhook.ts';

export interface IngestParts {
  directory: Directory<Webhook>;
  limiter: RateLimiter;
  /** The common limit over all webhooks. */
  policy: Policy;
  /** WEBHOOK_MAX_PAYLOAD_BYTES */
  capBytes: number;
  verifier: Verifier;
  writer: EventWriter;
  /** Moves a time to the nearest one that has a partition. */
  clampToPartitions: (ms: number) => number;
  /** A signature was verified by the webhook's current (0) or previous (1) secret. */
  onVerified: (secretPlace: number) => void;
}

const RETRY_SECONDS = 1;

export function createIngest(parts: IngestParts): (exchange: Exchange) => Promise<void> {
  const { directory, limiter, policy, capBytes, verifier, writer } = parts;
  const nextRandom = randomSource();

  return async function ingest(exchange) {
    const webhookId = exchange.parameters[0]!.toLowerCase();
    const known = directory.known(webhookId);
    const reading = exchange.readBody(known?.capBytes ?? capBytes);
    try {
      const limit = await takeIngest(limiter, policy, exchange, known);
      tellLimit(exchange, known?.policy ?? policy, limit);
      exchange.lap(Stage.limit);
      if (!limit.allowed) return exchange.problemLater('rate_limited', limit.resetSeconds);

      const webhook = await directory.find(webhookId, Date.now());
      if (webhook === undefined) return exchange.problemLater('database_unavailable', RETRY_SECONDS);
      if (webhook === null) return exchange.problem('webhook_unknown');
      if (!webhook.enabled) return exchange.problem('webhook_disabled');

      const received = await reading.outcome;
      exchange.lap(Stage.body);
      if (received.kind !== 'complete') return refuseBody(exchange, received);
      if (received.bytes.length > webhook.capBytes) return exchange.problem('payload_too_large');

      const verdict = await verify(exchange, webhook, received.bytes);
      exchange.lap(Stage.verify);
      if (verdict !== 'verified') return refuseSignature(exchange, verdict);
      if (exchange.aborted) return;

      const receivedAtMs = parts.clampToPartitions(Date.now());
      const id = uuidv7(receivedAtMs, nextRandom());
      const contentType = exchange.header('content-type');
      const stored = await writer.add({
        id,
        webhookId: webhook.idBytes,
        receivedAtMs,
        sourceIp: exchange.client.inet,
        headers: storedHeaders(exchange.headers, webhook.signatureHeader),
        contentType: contentType === undefined ? null : printable(contentType),
        body: received.bytes,
      });
      exchange.lap(Stage.commit);
      if (stored.kind !== 'committed') return refuseStore(exchange, stored);

      const receivedAt = new Date(receivedAtMs).toISOString();
      exchange.answer(
        202,
        'application/json',
        `{"id":"${uuidText(id)}","webhook_id":"${webhook.id}","received_at":"${receivedAt}","bytes":${received.bytes.length}}`,
      );
    } finally {
      reading.release();
    }
  };

  async function verify(
    exchange: Exchange,
    webhook: Webhook,
    body: Uint8Array<SharedArrayBuffer>,
  ): Promise<SignatureOutcome> {
    const secrets = secretsAt(webhook, Date.now());
    if (secrets.length === 0) return 'verified';
    const presented = presentedSignature(exchange.headers, webhook.signatureHeader);
    if (presented.kind !== 'digests') return presented.kind;
    const verdict = await verifier.verify(body, presented.digests, secrets);
    if (verdict.kind === 'verified') parts.onVerified(verdict.secretPlace);
    return verdict.kind;
  }
}

type SignatureOutcome = Verdict['kind'] | 'missing' | 'malformed';

function refuseBody(exchange: Exchange, { kind }: Exclude<BodyOutcome, { kind: 'complete' }>): void {
  if (kind === 'too_large') exchange.problem('payload_too_large');
  else if (kind !== 'aborted') exchange.problemLater(kind, RETRY_SECONDS);
}

function refuseSignature(exchange: Exchange, outcome: Exclude<SignatureOutcome, 'verified'>): void {
  if (outcome === 'unavailable') exchange.problemLater('verification_unavailable', RETRY_SECONDS);
  else exchange.problem(`signature_${outcome}`);
}

function refuseStore(exchange: Exchange, outcome: Exclude<PersistOutcome, { kind: 'committed' }>): void {
  if (outcome.kind === 'refused') exchange.problem('row_refused');
  else
    exchange.problemLater(
      outcome.kind === 'queue_full' ? 'queue_full' : 'database_unavailable',
      outcome.retryAfterSeconds,
    );
}

/** Gives 16 random bytes a call, drawn 256 times at once: a call into the generator costs more than its bytes. */
function randomSource(): () => Uint8Array {
  const pool = new Uint8Array(16 * 256);
  let at = pool.length;
  return () => {
    if (at === pool.length) {
      randomFillSync(pool);
      at = 0;
    }
    at += 16;
    return pool.slice(at - 16, at);
  };
}
