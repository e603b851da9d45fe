/** Says in an answer what is left of a limit, by draft-ietf-httpapi-ratelimit-headers-10. */
import type { Decision, Policy } from '../ratelimit/limiter.ts';
import type { Exchange } from './exchange.ts';

/** Puts RateLimit-Policy and RateLimit on the answer. */
export function tellLimit(exchange: Exchange, policy: Policy, { remaining, resetSeconds }: Decision): void {
  exchange.setHeader('ratelimit-policy', `"${policy.name}";q=${policy.max};w=${policy.windowSeconds}`);
  exchange.setHeader('ratelimit', `"${policy.name}";r=${remaining};t=${resetSeconds}`);
}
