/** /api/v1/session, /api/v1/setup and /api/v1/invitation: browser sign-in and sign-out in local mode. */
import { z } from 'zod';
import type { Exchange } from '../../../base/http/exchange.ts';
import { invalid, problem } from '../../../base/http/problem.ts';
import { emailText, enteredPassword, optionalNameText } from '../../../model/fields.ts';
import { passwordProblem } from '../../../model/passwords/rules.ts';
import { userSchema } from '../../../model/users.ts';
import { record } from '../../../store/audit/record.ts';
import { deleteSession } from '../../../store/queries/users/sessions.ts';
import type { Csrf } from '../../auth/csrf.ts';
import { acceptInvitation } from '../../auth/invitations.ts';
import { noSessionCookie, sessionCookie } from '../../auth/sessions.ts';
import { setUp } from '../../auth/setup.ts';
import { type SignedIn, type SignInParts, signIn } from '../../auth/sign-in.ts';
import { done, openOperation, operation, replyTo } from '../operation.ts';

const signInInput = z.strictObject({
  email: emailText.describe('email address of the user'),
  password: enteredPassword.describe('at most 1000 characters'),
});
const setUpInput = z.strictObject({
  token: z
    .string({ error: 'Give the token of the setup URL.' })
    .max(200)
    .describe('token of the setup URL that the start prints'),
  email: emailText.describe('email address of the first administrator'),
  name: optionalNameText.default('').describe('at most 200 characters'),
  password: enteredPassword.describe('12 to 200 characters, not a common password'),
});

const invitationInput = z.strictObject({
  token: z
    .string({ error: 'Give the token of the invitation link.' })
    .max(200)
    .describe('token of the invitation link'),
  password: enteredPassword.describe('12 to 200 characters, not a common password'),
});

const signedInSchema = z.object({
  user: userSchema.pick({ id: true, email: true, name: true, role: true }).describe('the signed-in user'),
  csrf_token: z.string().describe('send it with every change as X-CSRF-Token'),
});

interface SignInOperationParts extends SignInParts {
  csrf: Csrf;
  /** Key derived for the setup URL. */
  setupKey: Buffer;
  /** AUTH_MODE is hosted: users have no passwords. */
  hosted: boolean;
  /** Returns the sign-out URL of the identity provider; null without one. */
  signOutAddress: () => Promise<string | null>;
}

const signedOutSchema = z.object({
  provider_sign_out_url: z.url().describe('URL that ends the session at the identity provider as well'),
});

/** In hosted mode all but `signOut` return `local_mode_only`. */
export function signInOperations({ csrf, setupKey, hosted, signOutAddress, ...parts }: SignInOperationParts) {
  const { database, publicUrl, devices } = parts;

  /** Sets two cookies: the session cookie and the device cookie. */
  function signedIn<Status extends number>(exchange: Exchange, status: Status, { user, session }: SignedIn) {
    exchange.setHeader('set-cookie', sessionCookie(publicUrl, session));
    devices.keep(exchange, user.id, Date.now());
    return done(status, { user, csrf_token: csrf.token(session.id) });
  }

  return {
    signIn: openOperation({
      input: signInInput,
      answers: { 200: signedInSchema },
      problems: ['sign_in_failed', 'sign_in_limited', 'sign_in_busy', 'local_mode_only'],
      handle: async ({ input, exchange }) => {
        if (hosted) return problem('local_mode_only');
        const outcome = await signIn(parts, exchange, input);
        return replyTo(outcome, (value) => signedIn(exchange, 200, value));
      },
    }),

    signOut: operation({
      answers: { 200: signedOutSchema, 204: null },
      problems: ['session_unknown'],
      handle: async ({ who, actor }) => {
        const { via } = who;
        if (via.kind !== 'session') return problem('session_unknown');
        await database.transaction(async (query) => {
          // A concurrent request signed out first; the sign-out is already recorded.
          if (!(await deleteSession(query, via.sessionId))) return;
          const target = { kind: 'user', id: who.id, name: who.email };
          await record(query, actor, { action: 'session.sign_out', target });
        });
        const headers = { 'set-cookie': noSessionCookie(publicUrl) };
        const address = await signOutAddress();
        return address === null
          ? done(204, undefined, headers)
          : done(200, { provider_sign_out_url: address }, headers);
      },
    }),

    setUp: openOperation({
      input: setUpInput,
      answers: { 201: signedInSchema },
      problems: ['setup_refused', 'setup_closed', 'email_taken', 'sign_in_busy', 'local_mode_only'],
      handle: async ({ input, exchange }) => {
        if (hosted) return problem('local_mode_only');
        const wrong = passwordProblem(input.password, input.email);
        if (wrong !== null) return invalid('/password', wrong);
        const outcome = await setUp({ ...parts, key: setupKey }, exchange, input);
        return replyTo(outcome, (value) => signedIn(exchange, 201, value));
      },
    }),

    acceptInvitation: openOperation({
      input: invitationInput,
      answers: { 201: signedInSchema },
      problems: ['invitation_refused', 'sign_in_busy', 'local_mode_only'],
      handle: async ({ input, exchange }) => {
        if (hosted) return problem('local_mode_only');
        const outcome = await acceptInvitation(parts, exchange, input);
        return replyTo(outcome, (value) => signedIn(exchange, 201, value));
      },
    }),
  };
}
