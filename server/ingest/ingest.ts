/**
 * POST /in/{webhook_id} and /in/{webhook_id}/batch, the main routes. The steps run in this order; the first one that fails
 * determines the answer:
 *
 *     accept   snapshot of headers and address (server.ts)             404, 405, 431
 *     limit    counts the client while the body arrives                429
 *     webhook  looks up the directory                                  404, 410
 *     body     reads the whole body into a slab, up to the cap         413   (client gone: counted, no answer)
 *     verify   a thread checks the signature, batched per loop turn    403, 503   (503: no key decrypts a stored secret)
 *     lines    batch only: each line must be JSON                      413, 422
 *     commit   stores many requests together by binary COPY            503   (queue full, database unavailable)
 *     respond  one write                                               202   (200: a duplicate, not stored again)
 *
 * A Store (store.ts) does the last three: storeSingle stores a verified body as one event, storeBatch each line as an event.
 */

import type { Directory } from '../db/directory.ts';
import type { BodyOutcome } from '../http/body.ts';
import type { Exchange } from '../http/exchange.ts';
import { problem, problemLater } from '../http/problem.ts';
import { setRateLimitFields } from '../http/rate-limit.ts';
import type { Policy, RateLimiter } from '../ratelimit/limiter.ts';
import { Stage } from '../telemetry/stages.ts';
import { answersValidation, answersVerified } from './handshake.ts';
import { type Judge, type Judgement, refusalOf } from './judge.ts';
import { takeIngest } from './limit.ts';
import type { Store } from './store.ts';
import type { Webhook } from './webhook.ts';

export interface IngestParts {
  directory: Directory<Webhook>;
  limiter: RateLimiter;
  /** Default rate limit, shared by all webhooks without their own. */
  policy: Policy;
  /** WEBHOOK_MAX_PAYLOAD_BYTES */
  capBytes: number;
  judge: Judge;
  /** Called when a signature is refused. The body is released when this returns. */
  onRejected: (exchange: Exchange, webhook: Webhook, body: Uint8Array) => void;
}

const RETRY_SECONDS = 1;
/** Longer, because an operator first has to configure the right SECRETS_KEY. */
const SECRET_RETRY_SECONDS = 60;

export function createIngest(parts: IngestParts, store: Store): (exchange: Exchange) => Promise<void> {
  const { directory, limiter, policy, capBytes, judge } = parts;

  return async function ingest(exchange) {
    const webhookId = exchange.parameters[0]!.toLowerCase();
    const known = directory.known(webhookId);
    const reading = exchange.readBody(known?.capBytes ?? capBytes);
    try {
      const limit = await takeIngest(limiter, policy, exchange, known);
      setRateLimitFields(exchange, known?.policy ?? policy, limit);
      exchange.lap(Stage.limit);
      if (!limit.allowed) {
        if (known !== undefined) known.counts.limited++;
        return exchange.problem(problemLater('rate_limited', limit.resetSeconds));
      }

      const webhook = await directory.find(webhookId, Date.now());
      if (webhook === undefined) return exchange.problem(problemLater('database_unavailable', RETRY_SECONDS));
      if (webhook === null) return exchange.problem(problem('webhook_unknown'));
      if (!webhook.enabled) return exchange.problem(problem('webhook_disabled'));
      if (answersValidation(exchange, webhook)) return;

      const received = await reading.outcome;
      exchange.lap(Stage.body);
      if (received.kind !== 'complete') return refuseBody(exchange, received);
      if (received.bytes.length > webhook.capBytes) return exchange.problem(problem('payload_too_large'));

      const judgement = await judge(exchange, webhook, received.bytes);
      exchange.lap(Stage.verify);
      if (judgement.kind !== 'verified') return refuse(exchange, webhook, received.bytes, judgement);
      if (exchange.aborted || answersVerified(exchange, webhook, received.bytes)) return;

      await store(exchange, webhook, received.bytes);
    } finally {
      reading.release();
    }
  };

  function refuse(
    exchange: Exchange,
    webhook: Webhook,
    body: Uint8Array,
    judgement: Exclude<Judgement, { kind: 'verified' }>,
  ): void {
    if (judgement.kind === 'unavailable')
      return exchange.problem(problemLater('verification_unavailable', RETRY_SECONDS));
    if (judgement.kind === 'unreadable')
      return exchange.problem(problemLater('secret_unavailable', SECRET_RETRY_SECONDS));
    webhook.counts.rejected++;
    exchange.problem(refusalOf(webhook, judgement));
    parts.onRejected(exchange, webhook, body);
  }
}

function refuseBody(exchange: Exchange, { kind }: Exclude<BodyOutcome, { kind: 'complete' }>): void {
  if (kind === 'too_large') exchange.problem(problem('payload_too_large'));
  else if (kind !== 'aborted') exchange.problem(problemLater(kind, RETRY_SECONDS));
}
