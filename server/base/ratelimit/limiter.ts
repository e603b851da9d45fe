/** The rate limiter interface: take one request of a policy for a key. Two implementations: memory.ts and shared.ts. */

import type { Settings } from '../settings/read.ts';

export const limitNames = [
  'ingest',
  'agent-auth',
  'sign-in',
  'oidc-callback',
  'anonymous',
  'oauth',
  'oauth-register',
] as const;

/** One rate limit: at most `max` requests per window. `max` >= 1, `windowSeconds` >= 1. */
export interface Policy {
  readonly name: (typeof limitNames)[number];
  readonly max: number;
  readonly windowSeconds: number;
}

type LimitSetting = 'INGEST' | 'AGENT_AUTH' | 'SIGN_IN' | 'ANONYMOUS';

/** The policy of RATE_LIMIT_…_MAX and RATE_LIMIT_…_WINDOW_SECONDS. */
export function policyOf(setting: LimitSetting, settings: Settings): Policy {
  const name = setting.toLowerCase().replace('_', '-') as Policy['name'];
  const windowSeconds = settings[`RATE_LIMIT_${setting}_WINDOW_SECONDS`];
  return { name, max: settings[`RATE_LIMIT_${setting}_MAX`], windowSeconds };
}

export interface Decision {
  allowed: boolean;
  remaining: number;
  /**
   * Whole seconds, >= 1, until more than `remaining` requests are available, or, after a refusal, until one is: the `t` of draft-ietf-
   * httpapi-ratelimit-headers-10. It may exceed the window, see window.ts.
   */
  resetSeconds: number;
}

export interface RateLimiter {
  /**
   * Counts one request against `key`, unless it is refused. Never rejects: while the store is unavailable, requests are allowed. A decision
   * that is known is returned without a promise. @param key opaque (`ingest:192.0.2.1`); always of the same window length
   */
  take(key: string, policy: Policy): Decision | Promise<Decision>;
  /** `degraded`: the store is unavailable, and every request is allowed without being counted. */
  health(): 'ok' | 'degraded';
  /** Closes connections and timers. With the shared store, a later take is allowed without being counted. */
  close(): Promise<void>;
}
