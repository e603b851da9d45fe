/** Step `limit` of ingest and of handshakes. */
import type { Exchange } from '../../base/http/exchange.ts';
import type { Decision, Policy, RateLimiter } from '../../base/ratelimit/limiter.ts';
import type { Webhook } from './webhook.ts';

/** Counts one ingest request against the webhook's own limit if it has one, otherwise against the default limit. */
export function countRequest(
  limiter: RateLimiter,
  defaultPolicy: Policy,
  { client }: Exchange,
  webhook: Webhook | undefined,
): Decision | Promise<Decision> {
  const own = webhook?.policy;
  return own
    ? limiter.take(client.limitKey(webhook.limitScope), own)
    : limiter.take(client.limitKey('ingest'), defaultPolicy);
}
