/** /api/v1/users. */
import { z } from 'zod';
import { invalid, problem } from '../../../base/http/problem.ts';
import { recordId, text } from '../../../model/fields.ts';
import { passwordProblem } from '../../../model/passwords/rules.ts';
import { confirmationInput, givenRole, userInput, userSchema } from '../../../model/users.ts';
import { findUser, listUsers } from '../../../store/queries/users/users.ts';
import { invitationUrl } from '../../auth/invitations.ts';
import { generatePassword } from '../../auth/password-hash.ts';
import { isBearer } from '../../auth/person.ts';
import { done, etagOf, found, operation, replyTo } from '../operation.ts';
import { cursorText, pageOf, pageSchema, recordPageQuery } from '../paging.ts';
import { type UserParts, Users } from './user-changes.ts';

const generatedPassword = {
  generated_password: z.string().nullable().describe('shown only in this response; null: no password was generated'),
};
const invitation = {
  invitation_url: z
    .url()
    .describe('page on which the user chooses a password, valid once and for 48 hours; shown only here'),
};
const createdSchema = userSchema.extend({
  ...generatedPassword,
  invitation_url: invitation.invitation_url
    .nullable()
    .describe('the invitation link, shown only in this response; null: none was asked for'),
});
const invitedSchema = userSchema.extend(invitation);

const listQuery = z.strictObject({
  limit: recordPageQuery.limit,
  cursor: z.string().max(254).optional().describe(cursorText),
  q: text(1, 200).optional().describe('part of the email or the name, case-insensitive'),
  role: givenRole.optional().describe('only users with this role'),
});
const updatedSchema = userSchema.extend({
  revoked_tokens: z.int().describe('number of API tokens that revoke_tokens revoked'),
  ...generatedPassword,
});

/** @param hosted AUTH_MODE is hosted: users have no passwords */
export function userOperations({ hosted, publicUrl, ...parts }: UserParts & { hosted: boolean; publicUrl: string }) {
  const id = { schema: recordId, problem: 'user_unknown' } as const;
  return {
    listUsers: operation({
      query: listQuery,
      answers: { 200: pageSchema(userSchema) },
      handle: async ({ query }) => {
        const filter = { contains: query.q ?? null, role: query.role ?? null };
        const rows = await listUsers(parts.database, filter, query.cursor ?? null, query.limit + 1);
        return done(
          200,
          pageOf(rows, query.limit, undefined, ({ email }) => email),
        );
      },
    }),

    createUser: operation({
      stepUp: true,
      idempotent: true,
      input: userInput.create,
      answers: { 201: createdSchema },
      problems: ['email_taken', 'local_mode_only'],
      handle: async ({ input, actor }) => {
        const { invite = false } = input;
        if (hosted && (invite || input.password !== undefined)) return problem('local_mode_only');
        if (invite && input.password !== undefined) return invalid('/invite', 'Give a password or invite, not both.');
        const wrong = input.password === undefined ? null : passwordProblem(input.password, input.email);
        if (wrong !== null) return invalid('/password', wrong);
        const made = await new Users(parts, actor).create({
          ...input,
          password: input.password ?? (hosted ? null : invite ? 'invite' : 'generate'),
        });
        return replyTo(made, ({ user, generated, invitation }) => {
          const invitation_url = invitation && invitationUrl(publicUrl, invitation);
          const body = { ...user, generated_password: generated, invitation_url };
          return done(201, body, { location: `/api/v1/users/${user.id}` });
        });
      },
    }),

    inviteUser: operation({
      stepUp: true,
      idempotent: true,
      id,
      input: confirmationInput,
      answers: { 201: invitedSchema },
      problems: ['password_exists', 'local_mode_only'],
      handle: async ({ id, actor }) => {
        if (hosted) return problem('local_mode_only');
        const invited = await new Users(parts, actor).invite(id);
        return replyTo(invited, ({ user, token }) =>
          done(201, { ...user, invitation_url: invitationUrl(publicUrl, token) }),
        );
      },
    }),

    revokeInvitation: operation({
      id,
      answers: { 204: null },
      handle: async ({ id, actor }) => replyTo(await new Users(parts, actor).revokeInvitation(id), () => done(204)),
    }),

    showUser: operation({
      id,
      answers: { 200: userSchema },
      handle: async ({ id }) => found(await findUser(parts.database, { id }), 'user_unknown'),
    }),

    updateUser: operation({
      stepUp: true,
      id,
      input: userInput.update,
      answers: { 200: updatedSchema },
      representation: userSchema,
      problems: ['last_administrator', 'local_mode_only', 'session_required'],
      handle: async ({ who, id, input, actor, matches }) => {
        const { password: given, generate_password: generates = false, ...others } = input;
        if (given !== undefined && generates)
          return invalid('/generate_password', 'Give a password or generate_password, not both.');
        const password = generates ? generatePassword() : given;
        const { revoke_tokens: revokeTokens = password !== undefined, ...changes } = others;
        if (hosted && password !== undefined) return problem('local_mode_only');
        if (id === who.id && isBearer(who)) return problem('session_required');
        // A stolen session must not be enough to take over the account.
        if (id === who.id && password !== undefined)
          return invalid('/password', 'This is your own password: change it with POST /api/v1/account/password.');
        const user = await findUser(parts.database, { id });
        if (user === undefined) return problem('user_unknown');
        const wrong = password === undefined ? null : passwordProblem(password, user.email);
        if (wrong !== null) return invalid('/password', wrong);
        const changed = await new Users(parts, actor).update(id, { ...changes, password, revokeTokens }, matches);
        return replyTo(changed, ({ user, revokedTokens }) => {
          const etag = etagOf(JSON.stringify(userSchema.parse(user)));
          const shown = { revoked_tokens: revokedTokens, generated_password: generates ? password! : null };
          return done(200, { ...user, ...shown }, { etag });
        });
      },
    }),

    deleteUser: operation({
      stepUp: true,
      id,
      input: confirmationInput,
      answers: { 204: null },
      representation: userSchema,
      problems: ['last_administrator', 'session_required'],
      handle: async ({ who, id, actor, matches }) => {
        if (id === who.id && isBearer(who)) return problem('session_required');
        return replyTo(await new Users(parts, actor).remove(id, matches), () => done(204));
      },
    }),
  };
}
