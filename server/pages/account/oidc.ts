/** /oidc/start and /oidc/callback: sign-in at the identity provider, and the page for a refused sign-in. */

import { type Problem, ProblemError, problem, problemLater } from '../../base/http/problem.ts';
import { setRateLimitFields } from '../../base/http/rate-limit.ts';
import type { Policy, RateLimiter } from '../../base/ratelimit/limiter.ts';
import type { HostedSignIn } from '../../manage/auth/oidc/sign-in.ts';
import type { Person } from '../../manage/auth/person.ts';
import { sessionCookie } from '../../manage/auth/sessions.ts';
import { type Page, redirect } from '../page.ts';

/** Each callback may send a request to the provider, so callbacks are limited for each client. */
const callbackPolicy: Policy = { name: 'oidc-callback', max: 60, windowSeconds: 60 };

interface OidcParts {
  signIn: HostedSignIn;
  limiter: RateLimiter;
  publicUrl: string;
}

/** @param parts null when users sign in at Weir itself. */
export function oidcPages(parts: OidcParts | null) {
  if (parts === null) return { oidcStart: noProvider, oidcCallback: noProvider };
  const { signIn, limiter, publicUrl } = parts;

  const oidcStart: Page<Person | null> = async ({ exchange, query }) => {
    try {
      return redirect((await signIn.begin(exchange, query.get('return_to'), query.get('fresh') === 'true')).href);
    } catch (error) {
      if (error instanceof ProblemError) return refusal(error.problem);
      throw error;
    }
  };

  const answerCallback: Page<Person | null> = async ({ exchange, person }) => {
    const decision = await limiter.take(exchange.client.limitKey('oidc-callback'), callbackPolicy);
    setRateLimitFields(exchange, callbackPolicy, decision);
    if (!decision.allowed) return refusal(problemLater('rate_limited', decision.resetSeconds));
    const outcome = await signIn.finish(exchange);
    // Another tab has signed the person in, or the page of the callback was opened again.
    if (outcome.kind === 'problem' && outcome.code === 'sign_in_expired' && person !== null) return redirect('/');
    if (outcome.kind === 'problem') return refusal(outcome);
    return redirect(outcome.returnTo, undefined, { 'set-cookie': sessionCookie(publicUrl, outcome.session) });
  };

  return { oidcStart, oidcCallback: Object.assign(answerCallback, { countsRequests: true as const }) };
}

const noProvider: Page<Person | null> = async () =>
  problem('not_found', 'AUTH_MODE is local: there is no sign-in with an identity provider.');

/** After a failed sign-in, the page links to the sign-in page. */
function refusal(refused: Problem) {
  return { ...refused, link: { to: '/sign-in', text: 'Sign in' } };
}
