/** Step `limit`: counts the request and says so in the headers of draft-ietf-httpapi-ratelimit-headers-10. */
import type { Exchange } from '../http/exchange.ts';
import type { Decision, Policy, RateLimiter } from '../ratelimit/limiter.ts';
import type { Webhook } from './webhook.ts';

/** Counts one ingest request, for the webhook alone where it has a limit of its own, else over all webhooks. */
export function takeIngest(
  limiter: RateLimiter,
  common: Policy,
  { client }: Exchange,
  webhook: Webhook | undefined,
): Decision | Promise<Decision> {
  const own = webhook?.policy;
  return own ? limiter.take(client.limitKey(webhook.limitScope), own) : limiter.take(client.limitKey('ingest'), common);
}

/** Puts RateLimit-Policy and RateLimit on the answer. */
export function tellLimit(exchange: Exchange, policy: Policy, { remaining, resetSeconds }: Decision): void {
  exchange.setHeader('ratelimit-policy', `"${policy.name}";q=${policy.max};w=${policy.windowSeconds}`);
  exchange.setHeader('ratelimit', `"${policy.name}";r=${remaining};t=${resetSeconds}`);
}
