/** /api/v1/account: the requesting user, their sessions and their password. */
import { z } from 'zod';
import { invalid, problem } from '../../../base/http/problem.ts';
import { enteredPassword, recordId } from '../../../model/fields.ts';
import { passwordProblem } from '../../../model/passwords/rules.ts';
import { roles, userSchema, userSessionSchema } from '../../../model/users.ts';
import { record } from '../../../store/audit/record.ts';
import { deleteOwnSession, deleteSessionsOfUser, listSessions } from '../../../store/queries/users/sessions.ts';
import type { Csrf } from '../../auth/csrf.ts';
import { USER_SESSION_IDLE_SECONDS } from '../../auth/people.ts';
import { noSessionCookie } from '../../auth/sessions.ts';
import type { SignInParts } from '../../auth/sign-in.ts';
import { changePassword } from '../../auth/step-up.ts';
import { done, operation, replyTo } from '../operation.ts';
import { listSchema } from '../paging.ts';

const accountSchema = userSchema.pick({ id: true, email: true, name: true }).extend({
  role: z.enum(roles).describe('role of this request: that of the user, or of the token if that is lower'),
  csrf_token: z
    .string()
    .nullable()
    .describe(
      'CSRF token of a cookie session: send it with every change as X-CSRF-Token; null for API tokens, which do not need it',
    ),
});

const ownSessionSchema = userSessionSchema.extend({
  current: z.boolean().describe('true: the session of this request'),
});

const passwordInput = z.strictObject({
  current_password: enteredPassword.describe('the current password'),
  new_password: enteredPassword.describe('12 to 200 characters, not a common password'),
  revoke_tokens: z
    .boolean('Say true or false.')
    .default(true)
    .describe('true: your API tokens are revoked as well; false: they stay valid'),
});
const passwordChanged = z.object({
  revoked_tokens: z.int().describe('number of API tokens that revoke_tokens revoked'),
});

interface AccountParts extends SignInParts {
  csrf: Csrf;
  /** AUTH_MODE is hosted: users have no passwords. */
  hosted: boolean;
}

/** All but `showAccount` are refused to API tokens and JWTs: they concern the requester's own account. */
export function accountOperations({ csrf, hosted, ...parts }: AccountParts) {
  const { database, publicUrl } = parts;
  return {
    showAccount: operation({
      answers: { 200: accountSchema },
      handle: async ({ who: { id, email, name, role, via } }) => {
        const csrfToken = via.kind === 'session' ? csrf.token(via.sessionId) : null;
        return done(200, { id, email, name, role, csrf_token: csrfToken });
      },
    }),

    /** Not paged: a user has at most SESSIONS_OF_USER_MAX sessions. */
    listSessions: operation({
      sessionOnly: true,
      answers: { 200: listSchema(ownSessionSchema) },
      handle: async ({ who: { id, via } }) => {
        const rows = await listSessions(database, id, USER_SESSION_IDLE_SECONDS);
        const own = via.kind === 'session' ? via.sessionId : null;
        return done(200, { items: rows.map((row) => ({ ...row, current: row.id === own })) });
      },
    }),

    /** Includes the requesting session. */
    endSessions: operation({
      sessionOnly: true,
      answers: { 204: null },
      handle: async ({ who, actor }) => {
        await database.transaction(async (query) => {
          const sessions = await deleteSessionsOfUser(query, who.id, null);
          const target = { kind: 'user', id: who.id, name: who.email };
          await record(query, actor, { action: 'session.sign_out_everywhere', target, before: { sessions } });
        });
        return done(204, undefined, { 'set-cookie': noSessionCookie(publicUrl) });
      },
    }),

    /** May be the requesting session. */
    endSession: operation({
      sessionOnly: true,
      id: { schema: recordId, problem: 'session_unknown' },
      answers: { 204: null },
      handle: async ({ who, id, actor }) => {
        const ended = await database.transaction(async (query) => {
          const before = await deleteOwnSession(query, who.id, id);
          if (before === undefined) return false;
          const target = { kind: 'session', id, name: who.email };
          await record(query, actor, { action: 'session.end', target, before });
          return true;
        });
        if (!ended) return problem('session_unknown');
        const isOwn = who.via.kind === 'session' && who.via.sessionId === id;
        return done(204, undefined, isOwn ? { 'set-cookie': noSessionCookie(publicUrl) } : {});
      },
    }),

    /** Revokes the API tokens too unless revoke_tokens is false: anyone who knew the old password may have created some. */
    changePassword: operation({
      sessionOnly: true,
      input: passwordInput,
      answers: { 200: passwordChanged },
      problems: ['local_mode_only', 'sign_in_limited', 'sign_in_busy'],
      handle: async ({ who, input, actor, exchange }) => {
        if (hosted) return problem('local_mode_only');
        const wrong = passwordProblem(input.new_password, who.email);
        if (wrong !== null) return invalid('/new_password', wrong);
        const changed = await changePassword(parts, exchange, who, actor, {
          current: input.current_password,
          next: input.new_password,
          revokeTokens: input.revoke_tokens,
        });
        return replyTo(changed, ({ revokedTokens }) => done(200, { revoked_tokens: revokedTokens }));
      },
    }),
  };
}
