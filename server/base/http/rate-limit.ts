/** Rate limits in answers: the RateLimit fields (draft-ietf-httpapi-ratelimit-headers-10) and the 429 problem. */
import type { Decision, Policy, RateLimiter } from '../ratelimit/limiter.ts';
import type { Exchange } from './exchange.ts';
import { type Problem, problemLater } from './problem.ts';

/** Sets RateLimit-Policy and RateLimit on the answer. */
export function setRateLimitFields(exchange: Exchange, policy: Policy, { remaining, resetSeconds }: Decision): void {
  let text = policyTexts.get(policy);
  if (text === undefined) {
    text = `"${policy.name}";q=${policy.max};w=${policy.windowSeconds}\r\nratelimit: "${policy.name}";r=`;
    policyTexts.set(policy, text);
  }
  exchange.setHeader('ratelimit-policy', `${text}${remaining};t=${resetSeconds}`);
}

const policyTexts = new WeakMap<Policy, string>();

/** Counts a request of the client against the policy. Returns the problem if the limit is exceeded. */
export async function overLimit(exchange: Exchange, limiter: RateLimiter, policy: Policy): Promise<Problem | null> {
  const decision = await limiter.take(exchange.client.limitKey(policy.name), policy);
  setRateLimitFields(exchange, policy, decision);
  return decision.allowed ? null : problemLater('rate_limited', decision.resetSeconds);
}
