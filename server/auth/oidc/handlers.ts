/** The two routes of hosted sign-in. */
import type { ProblemCode } from '../../errors.ts';
import type { Exchange } from '../../http/exchange.ts';
import { tellLimit } from '../../http/tell-limit.ts';
import type { Policy, RateLimiter } from '../../ratelimit/limiter.ts';
import { sessionCookie } from '../sessions.ts';
import type { CallbackOutcome, HostedSignIn } from './sign-in.ts';

/** Each callback may ask the provider: a client does not make us ask more often than this. */
export const callbackPolicy: Policy = { name: 'oidc-callback', max: 60, windowSeconds: 60 };

export interface OidcParts {
  signIn: HostedSignIn;
  limiter: RateLimiter;
  publicUrl: string;
}

export function oidcHandlers({ signIn, limiter, publicUrl }: OidcParts) {
  return {
    oidcStart: async (exchange: Exchange) => redirect(exchange, 302, (await signIn.begin(exchange)).href),
    oidcCallback: async (exchange: Exchange) => {
      const decision = await limiter.take(exchange.client.limitKey('oidc-callback'), callbackPolicy);
      tellLimit(exchange, callbackPolicy, decision);
      if (!decision.allowed) return exchange.problemLater('rate_limited', decision.resetSeconds);
      answer(exchange, await signIn.finish(exchange), publicUrl);
    },
  };
}

/** Where people sign in at Weir itself. */
export const noOidcHandlers = {
  oidcStart: (exchange: Exchange) => exchange.problem('not_found', NO_OIDC),
  oidcCallback: (exchange: Exchange) => exchange.problem('not_found', NO_OIDC),
};

const NO_OIDC = 'AUTH_MODE is local: no identity provider signs people in here.';

function answer(exchange: Exchange, outcome: CallbackOutcome, publicUrl: string): void {
  if (outcome.kind === 'refused') return refuse(exchange, outcome);
  exchange.setHeader('set-cookie', sessionCookie(publicUrl, outcome.session));
  redirect(exchange, 303, outcome.returnTo);
}

function refuse(
  exchange: Exchange,
  { code, retryAfterSeconds }: { code: ProblemCode; retryAfterSeconds: number | null },
): void {
  if (retryAfterSeconds === null) exchange.problem(code);
  else exchange.problemLater(code, retryAfterSeconds);
}

function redirect(exchange: Exchange, status: 302 | 303, address: string): void {
  exchange.setHeader('location', address);
  exchange.answer(status, 'text/plain', '');
}
