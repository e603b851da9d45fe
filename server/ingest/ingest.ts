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
import { setRateLimitFields } from '../http/rate-limit.ts';
import type { Decision, Policy, RateLimiter } from '../ratelimit/limiter.ts';
import { Stage } from '../telemetry/stages.ts';
import type { Store } from './store.ts';
import type { Verdict, Verifier } from './verify.ts';
import { keyringAt, type Webhook } from './webhook.ts';

export interface IngestParts {
  directory: Directory<Webhook>;
  limiter: RateLimiter;
  /** Default rate limit, shared by all webhooks without their own. */
  policy: Policy;
  /** WEBHOOK_MAX_PAYLOAD_BYTES */
  capBytes: number;
  verifier: Verifier;
  /** Called when a signature verifies. `keyPlace` is the index of the key in the webhook's keyring. */
  onVerified: (webhook: Webhook, keyPlace: number) => void;
  /** Called when a signature is refused. The body is released when this returns. */
  onRejected: (exchange: Exchange, webhook: Webhook, body: Uint8Array) => void;
}

const RETRY_SECONDS = 1;
/** Longer, because an operator first has to configure the right SECRETS_KEY. */
const SECRET_RETRY_SECONDS = 60;

export function createIngest(parts: IngestParts, store: Store): (exchange: Exchange) => Promise<void> {
  const { directory, limiter, policy, capBytes, verifier } = parts;

  return async function ingest(exchange) {
    const webhookId = exchange.parameters[0]!.toLowerCase();
    const known = directory.known(webhookId);
    const reading = exchange.readBody(known?.capBytes ?? capBytes);
    try {
      const limit = await takeIngest(limiter, policy, exchange, known);
      setRateLimitFields(exchange, known?.policy ?? policy, limit);
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
      if (verdict === 'unavailable') return exchange.problemLater('verification_unavailable', RETRY_SECONDS);
      if (verdict === 'unreadable') return exchange.problemLater('secret_unavailable', SECRET_RETRY_SECONDS);
      if (verdict !== 'verified') {
        exchange.problem(`signature_${verdict}`);
        return parts.onRejected(exchange, webhook, received.bytes);
      }
      if (exchange.aborted) return;

      await store(exchange, webhook, received.bytes);
    } finally {
      reading.release();
    }
  };

  async function verify(
    exchange: Exchange,
    webhook: Webhook,
    body: Uint8Array<SharedArrayBuffer>,
  ): Promise<SignatureOutcome> {
    const nowMs = Date.now();
    const keyring = keyringAt(webhook, nowMs);
    const unreadable = nowMs < webhook.unreadableUntilMs;
    if (keyring.keys.length === 0) return unreadable ? 'unreadable' : 'verified';
    const { headers, method } = exchange;
    const presented = webhook.scheme.present({ headers, method, url: '' });
    if (presented.kind !== 'digests') return presented.kind;
    const verdict = await verifier.verify(body, presented, keyring);
    if (verdict.kind === 'verified') parts.onVerified(webhook, verdict.keyPlace);
    // The unreadable secret may have made this signature, and a sender treats 403 as final.
    return verdict.kind === 'mismatch' && unreadable ? 'unreadable' : verdict.kind;
  }
}

type SignatureOutcome = Verdict['kind'] | 'unreadable' | 'missing' | 'malformed';

function refuseBody(exchange: Exchange, { kind }: Exclude<BodyOutcome, { kind: 'complete' }>): void {
  if (kind === 'too_large') exchange.problem('payload_too_large');
  else if (kind !== 'aborted') exchange.problemLater(kind, RETRY_SECONDS);
}

/** Counts one ingest request against the webhook's own limit if it has one, otherwise against the default limit. */
function takeIngest(
  limiter: RateLimiter,
  common: Policy,
  { client }: Exchange,
  webhook: Webhook | undefined,
): Decision | Promise<Decision> {
  const own = webhook?.policy;
  return own ? limiter.take(client.limitKey(webhook.limitScope), own) : limiter.take(client.limitKey('ingest'), common);
}
