/** Pages around the sign-in: /sign-in, /sign-out, the identity provider, /setup of the first administrator, /invitation of a user. */
import { type Problem, ProblemError, problem, problemLater } from '../../base/http/problem.ts';
import { setRateLimitFields } from '../../base/http/rate-limit.ts';
import type { Policy, RateLimiter } from '../../base/ratelimit/limiter.ts';
import { invitedUser } from '../../manage/auth/invitations.ts';
import type { HostedSignIn } from '../../manage/auth/oidc/sign-in.ts';
import type { Person } from '../../manage/auth/person.ts';
import { sessionCookie } from '../../manage/auth/sessions.ts';
import { returnAddress } from '../../manage/auth/sign-in.ts';
import { type ProblemCode, problems } from '../../model/errors.ts';
import type { Database } from '../../store/connect/pool.ts';
import { formErrors, noErrors, textsOf } from '../forms/form.ts';
import { action, type FormFeedback, formView, type Page, type PageReply, redirect } from '../page.ts';

interface SignInPageParts {
  publicUrl: string;
  /** False while no administrator exists, so that no user can sign in. */
  isSetUp: () => Promise<boolean>;
  /** The sign-out URL of the identity provider; null when it has none. */
  signOutAddress: () => Promise<string | null>;
}

/** Sign-in with a password, and sign-out. */
export function signInPages({ publicUrl, isSetUp, signOutAddress }: SignInPageParts) {
  const signIn: Page<Person | null> = async ({ person, query }) => {
    const returnTo = query.get('return_to') ?? '/';
    if (person !== null) return redirect(returnAddress(returnTo, publicUrl));
    // A link instead of a redirect: the Content-Security-Policy forbids forms from leading to another origin.
    const providerSignOut = query.has('notice') ? await signOutAddress() : null;
    return signInForm({ returnTo, email: '', providerSignOut, isSetUp: await isSetUp() }, noErrors);
  };

  const doSignIn: Page<Person | null> = async ({ form, call }) => {
    const returnTo = form.get('return_to') ?? '/';
    const email = form.get('email') ?? '';
    const signedIn = await call('signIn', { input: { email, password: form.get('password') ?? '' } });
    if (signedIn.kind === 'done') return redirect(returnAddress(returnTo, publicUrl), undefined, signedIn.headers);
    return signInForm({ returnTo, email, providerSignOut: null, isSetUp: true }, formErrors(signedIn));
  };

  const signOut = action('signOut', ({ headers }) => redirect('/sign-in', 'signed-out', headers));

  return { signIn, doSignIn, signOut };
}

const signInForm = (
  shown: { returnTo: string; email: string; providerSignOut: string | null; isSetUp: boolean },
  feedback: FormFeedback,
) => formView('sign-in', 'Sign in', shown, feedback);

/** The setup of the first administrator. @param whyClosed why it is closed; null when no administrator exists yet */
export function setupPages(whyClosed: () => Promise<ProblemCode | null>) {
  const setUp: Page<Person | null> = async ({ query }) => {
    const closed = await whyClosed();
    if (closed !== null) return problem(closed);
    return setupForm({ token: query.get('token') ?? '', email: '', name: '' }, noErrors);
  };

  const doSetUp: Page<Person | null> = async ({ form, call }) => {
    const input = textsOf(form, ['token', 'email', 'name', 'password']);
    const made = await call('setUp', { input });
    if (made.kind === 'done') return redirect('/', 'set-up', made.headers);
    if (made.kind === 'problem' && problems[made.code].status === 404) return made;
    return setupForm({ ...input, password: '' }, formErrors(made, { email_taken: 'email' }));
  };

  return { setUp, doSetUp };
}

const setupForm = (given: object, feedback: FormFeedback) => formView('setup', 'Set up Weir', { given }, feedback);

/** The page of an invitation. @param hosted AUTH_MODE is hosted: users have no passwords */
export function invitationPages(database: Database, hosted: boolean) {
  async function form(token: string, feedback: FormFeedback): Promise<PageReply> {
    if (hosted) return problem('local_mode_only');
    const user = await invitedUser(database, token);
    if (user === undefined) return problem('invitation_refused');
    return formView('invitation', 'Choose a password', { token, email: user.email }, feedback);
  }

  const invitation: Page<Person | null> = ({ query }) => form(query.get('token') ?? '', noErrors);

  const acceptInvitation: Page<Person | null> = async ({ form: given, call }) => {
    const token = given.get('token') ?? '';
    const accepted = await call('acceptInvitation', { input: { token, password: given.get('password') ?? '' } });
    if (accepted.kind === 'done') return redirect('/', 'invitation-accepted', accepted.headers);
    return form(token, formErrors(accepted));
  };

  return { invitation, acceptInvitation };
}

/** Each callback may send a request to the provider, so callbacks are limited for each client. */
const callbackPolicy: Policy = { name: 'oidc-callback', max: 60, windowSeconds: 60 };

interface OidcParts {
  signIn: HostedSignIn;
  limiter: RateLimiter;
  publicUrl: string;
}

/** Sign-in at the identity provider. @param parts null when users sign in at Weir itself */
export function oidcPages(parts: OidcParts | null) {
  if (parts === null) return { oidcStart: noProvider, oidcCallback: noProvider };
  const { signIn, limiter, publicUrl } = parts;

  const oidcStart: Page<Person | null> = async ({ exchange, query }) => {
    try {
      return redirect((await signIn.begin(exchange, query.get('return_to'), query.get('fresh') === 'true')).href);
    } catch (error) {
      if (error instanceof ProblemError) return refusalPage(error.problem);
      throw error;
    }
  };

  const answerCallback: Page<Person | null> = async ({ exchange, person }) => {
    const decision = await limiter.take(exchange.client.limitKey('oidc-callback'), callbackPolicy);
    setRateLimitFields(exchange, callbackPolicy, decision);
    if (!decision.allowed) return refusalPage(problemLater('rate_limited', decision.resetSeconds));
    const outcome = await signIn.finish(exchange);
    // Another tab has signed the person in, or the page of the callback was opened again.
    if (outcome.kind === 'problem' && outcome.code === 'sign_in_expired' && person !== null) return redirect('/');
    if (outcome.kind === 'problem') return refusalPage(outcome);
    return redirect(outcome.returnTo, undefined, { 'set-cookie': sessionCookie(publicUrl, outcome.session) });
  };

  return { oidcStart, oidcCallback: Object.assign(answerCallback, { countsRequests: true as const }) };
}

const noProvider: Page<Person | null> = async () =>
  problem('not_found', 'AUTH_MODE is local: there is no sign-in with an identity provider.');

/** After a failed sign-in, the page links to the sign-in page. */
function refusalPage(refused: Problem) {
  return { ...refused, link: { to: '/sign-in', text: 'Sign in' } };
}
