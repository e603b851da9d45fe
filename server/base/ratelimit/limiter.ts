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
  /** Requests that would be allowed right after this one. */
  remaining: number;
  /**
   * Whole seconds, >= 1, until more than `remaining` requests are available, or, after a refusal, until one is (Retry-After).
   * This is the `t` parameter of draft-ietf-httpapi-ratelimit-headers-10. It may exceed the window: see base/ratelimit/window.ts.
   */
  resetSeconds: number;
}

export interface RateLimiter {
  /**
   * Counts one request against `key`, unless it is refused. Never rejects: while the store is unavailable, requests are allowed
   * (fail open). The decision is returned synchronously if it is known, so that the memory store creates no promise on the hot path.
   * @param key opaque; names what is counted (`ingest:192.0.2.1`). Always use a key with the same window length.
   */
  take(key: string, policy: Policy): Decision | Promise<Decision>;
  /** `degraded`: the store is unavailable, and every request is allowed without being counted. */
  health(): 'ok' | 'degraded';
  /** Closes connections and timers. With the shared store, a later take is allowed without being counted. */
  close(): Promise<void>;
}
