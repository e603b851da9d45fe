/** Step `limit`: counts the request. */
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
