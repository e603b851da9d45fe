/** The limits of requests without valid credentials, on every route that is neither ingest nor counted by another limit. */
import type { Exchange } from '../../base/http/exchange.ts';
import type { Problem } from '../../base/http/problem.ts';
import { overLimit } from '../../base/http/rate-limit.ts';
import type { RouteHandler } from '../../base/http/route.ts';
import type { Policy, RateLimiter } from '../../base/ratelimit/limiter.ts';
import type { AgentAuth } from './agent.ts';
import type { People } from './people.ts';

interface AnonymousParts {
  limiter: RateLimiter;
  /** RATE_LIMIT_ANONYMOUS_MAX in RATE_LIMIT_ANONYMOUS_WINDOW_SECONDS */
  policy: Policy;
  people: People;
  agentAuth: AgentAuth;
}

export class AnonymousLimit {
  readonly #parts: AnonymousParts;

  constructor(parts: AnonymousParts) {
    this.#parts = parts;
  }

  /** Counts a request without a known user, unless it has an agent session. Returns the problem if its client is over the limit. */
  async over(exchange: Exchange): Promise<Problem | null> {
    const { limiter, policy, agentAuth } = this.#parts;
    if (await agentAuth.hasSession(exchange)) return null;
    exchange.isAnonymous = true;
    return overLimit(exchange, limiter, policy);
  }

  /**
   * Counts a request on a route for anyone, unless it has the credentials of a user: users behind an address over its limit are served.
   * Credentials that cannot be checked, because the database is away, count as missing.
   */
  async overUnlessKnown(exchange: Exchange): Promise<Problem | null> {
    const { people } = this.#parts;
    const isUser = people.hasCredentials(exchange) && (await people.find(exchange).catch(() => null)) !== null;
    return isUser ? null : this.over(exchange);
  }

  /** The handler of a document for anyone, within the limit. */
  document(answer: RouteHandler): RouteHandler {
    return async (exchange) => {
      const over = await this.overUnlessKnown(exchange);
      if (over === null) await answer(exchange);
      else exchange.problem(over);
    };
  }
}
