/** What the request path knows of rate limits: take one request of a policy for a key. Two stores: memory.ts and shared.ts. */

export const limitNames = ['ingest', 'agent-auth', 'sign-in', 'oidc-callback'] as const;

/** One row of the limits: how many requests a window. `max` >= 1, `windowSeconds` >= 1. */
export interface Policy {
  readonly name: (typeof limitNames)[number];
  readonly max: number;
  readonly windowSeconds: number;
}

export interface Decision {
  allowed: boolean;
  /** Requests that would be allowed right after this one. */
  remaining: number;
  /**
   * Whole seconds, >= 1, until more than `remaining` are available; when refused, until one request fits (Retry-After).
   * That is the `t` of draft-ietf-httpapi-ratelimit-headers-10. It may exceed the window: see ratelimit/window.ts.
   */
  resetSeconds: number;
}

export interface RateLimiter {
  /**
   * Counts one request against `key`, unless it is refused. Never rejects: a store that is away allows (fail open).
   * `key` is opaque and should say what is counted (`ingest:192.0.2.1`); one key keeps to one window length. The answer
   * comes at once where it is known at once, so that the hot path of the memory store makes no promise.
   */
  take(key: string, policy: Policy): Decision | Promise<Decision>;
  /** `degraded`: the store is away and every request is allowed, uncounted. */
  health(): 'ok' | 'degraded';
  /** Lets go of connections and timers. A later take is allowed, uncounted, where the store was shared. */
  close(): Promise<void>;
}
