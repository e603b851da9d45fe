/** Users, their roles, their sessions and their API tokens. */
import { z } from 'zod';
import {
  createdAt,
  email,
  emailText,
  enteredPassword,
  idOf,
  nameOf,
  optionalNameText,
  textOrNull,
  timeOf,
  timeOrNull,
  updatedAt,
} from './fields.ts';

/** User roles. Each role includes the permissions of the roles before it; the route table defines the role that a route requires. */
export const roles = ['viewer', 'operator', 'administrator'] as const;
export type Role = (typeof roles)[number];

/** Whether `role` has the permissions of `needed`. */
export function allows(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed);
}

/** The lesser of two roles: a token is limited to its own role and to the role of its user. */
export function lesserRole(one: Role, other: Role): Role {
  return allows(one, other) ? other : one;
}

export const userSchema = z
  .object({
    id: idOf('user'),
    email,
    name: nameOf('user'),
    role: z.enum(roles).describe('what the user may do'),
    disabled: z.boolean().describe('true: the user cannot sign in or use API tokens'),
    has_password: z.boolean().describe('false: the user cannot sign in with a password'),
    hosted: z.boolean().describe('true: the user signs in at the OpenID Connect provider'),
    created_at: createdAt,
    updated_at: updatedAt,
    signed_in_at: timeOrNull('last sign-in; null: the user has not signed in yet'),
    invited_until: timeOrNull(
      'until when the invitation link is valid; null: no link was made, or it was used or revoked',
    ),
    role_until: timeOrNull(
      'end of validity of the role that the OpenID Connect provider confirmed last; after it, API tokens are suspended until the user signs in again; null: the role is set in Weir',
    ),
  })
  .meta({ id: 'User' });

/** The password that confirms a change: step-up (manage/auth/step-up.ts). */
export const currentPassword = enteredPassword
  .optional()
  .describe(
    'password of the requester, required with a cookie session (AUTH_MODE local); not required with an API token',
  );

/** Input of an operation that takes only the password of the step-up. */
export const confirmationInput = z.strictObject({ current_password: currentPassword });

export const givenRole = z.enum(roles, `Choose one of ${roles.join(', ')}.`);

export const userInput = {
  create: z.strictObject({
    email: emailText.describe('email address, at most 254 characters, unique among users'),
    name: optionalNameText.default('').describe('at most 200 characters'),
    role: givenRole.describe('what the user may do'),
    password: enteredPassword
      .optional()
      .describe('12 to 200 characters, not a common password; absent: generated (AUTH_MODE local)'),
    invite: z
      .boolean('Say true or false.')
      .optional()
      .describe('true: no password; the user chooses one with the invitation link of the response'),
    current_password: currentPassword,
  }),
  update: z.strictObject({
    name: optionalNameText.optional().describe('at most 200 characters'),
    role: givenRole.optional().describe('what the user may do'),
    disabled: z.boolean('Say true or false.').optional().describe('true: the user cannot sign in or use API tokens'),
    password: enteredPassword
      .optional()
      .describe("the new password; the user's sessions end. For your own password use POST /api/v1/account/password"),
    generate_password: z
      .boolean('Say true or false.')
      .optional()
      .describe('true: a new password is generated, instead of password, and shown only in the response'),
    revoke_tokens: z
      .boolean('Say true or false.')
      .optional()
      .describe('true: the API tokens of the user are revoked as well; absent: true with a new password, else false'),
    current_password: currentPassword,
  }),
};

/** A session as shown to its user. */
export const userSessionSchema = z.object({
  id: idOf('session'),
  created_at: createdAt,
  last_seen_at: timeOf('last request of the session, to the minute'),
  expires_at: timeOf('latest end of the session'),
  address: z.string().describe('address of the browser at the sign-in'),
  user_agent: z.string().describe('User-Agent of the browser at the sign-in'),
});

export const tokenSchema = z
  .object({
    id: idOf('token'),
    user_id: idOf('user'),
    user_email: email,
    name: nameOf('token'),
    client_id: textOrNull(
      'OAuth client that holds it, named by `name`: it is valid for /mcp alone; null: an API token',
    ),
    agent_id: z
      .guid()
      .nullable()
      .describe('agent as which the OAuth client acts, whatever the role; null: it acts as the user, with the role'),
    role: z
      .enum(roles)
      .describe(
        'highest role of the token; the role of its user limits it as well, and ends it if an OAuth client holds it',
      ),
    state: z
      .enum(['active', 'suspended', 'expired', 'revoked'])
      .describe('suspended: refused until its user signs in at the OpenID Connect provider again'),
    created_at: createdAt,
    expires_at: timeOrNull('when it expires; null: never'),
    last_used_at: timeOrNull('last request with the token, to the minute; null: none yet'),
    revoked_at: timeOrNull('when it was revoked; null: not revoked'),
  })
  .meta({ id: 'Token' });
