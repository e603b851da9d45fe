/** /api/v1/tokens: a user's own API tokens; administrators see and revoke the tokens of all users. */
import { z } from 'zod';
import { invalid, problem, type Result } from '../../../base/http/problem.ts';
import { nameText, recordId } from '../../../model/fields.ts';
import { allows, currentPassword, type Role, roles, tokenSchema } from '../../../model/users.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { findTokenRecord, isCreatedBy, listTokens, type TokenScope } from '../../../store/queries/users/tokens.ts';
import { findUser } from '../../../store/queries/users/users.ts';
import { isBearer, type Person } from '../../auth/person.ts';
import { done, found, operation, replyTo } from '../operation.ts';
import { cursorProblem, flag, pageOf, pageSchema, recordPageQuery } from '../paging.ts';
import { EXPIRY_DAYS, EXPIRY_DAYS_MAX, inDays, Tokens } from './token-changes.ts';

const id = { schema: recordId, problem: 'token_unknown' } as const;

const listQuery = z.strictObject({
  ...recordPageQuery,
  user_id: recordId.optional().describe('only tokens of this user; for administrators'),
  agent_id: recordId
    .optional()
    .describe('only tokens of OAuth clients that act as this agent, of all users; for operators'),
  all: flag.optional().describe('true: tokens of all users; for administrators'),
});

const days = `Give a whole number of days from 1 to ${EXPIRY_DAYS_MAX}, or null for a token that never expires.`;
const moment = `Give a future time within ${EXPIRY_DAYS_MAX} days, such as 2030-01-31T12:00:00Z, or null for a token that never expires.`;

const tokenInput = z
  .strictObject({
    name: nameText.describe('1 to 200 characters'),
    role: z
      .enum(roles, { error: `Give one of ${roles.join(', ')}.` })
      .optional()
      .describe('role of the token, at most your own; absent: your own'),
    expires_at: z.iso
      .datetime({ offset: true, abort: true, error: moment })
      .refine((text) => new Date(text).getTime() > Date.now() && new Date(text) <= inDays(EXPIRY_DAYS_MAX), moment)
      .nullable()
      .optional()
      .describe('when it expires; null: never'),
    expires_in_days: z
      .int(days)
      .min(1, days)
      .max(EXPIRY_DAYS_MAX, days)
      .nullable()
      .optional()
      .describe(`days until it expires, instead of expires_at; if both are absent: ${EXPIRY_DAYS}`),
    current_password: currentPassword,
    user_id: recordId.optional().describe('user that owns it; only for commands on the machine of Weir'),
  })
  .refine((input) => input.expires_at === undefined || input.expires_in_days === undefined, {
    path: ['expires_in_days'],
    error: 'Give expires_at or expires_in_days, not both.',
  });

/** For API tokens and JWTs some calls are refused, see `isPowerful` and `mayRevokeOwn`. */
export function tokenOperations(database: Database) {
  return {
    listTokens: operation({
      query: listQuery,
      answers: { 200: pageSchema(tokenSchema) },
      handle: async ({ who, query: { all, user_id, agent_id, cursor, limit } }) => {
        const userId = all === 'true' ? null : (user_id ?? who.id);
        if (agent_id === undefined && userId !== who.id && !isAdministrator(who))
          return problem(
            'forbidden',
            "Everybody's tokens are for administrators; without all and user_id you see yours.",
          );
        const scope = agent_id === undefined ? { userId, ofAgents: false } : scopeOf(who);
        const filter = { agentId: agent_id ?? null, before: cursor ?? null };
        const rows = await listTokens(database, scope, filter, limit + 1);
        const wrong = await cursorProblem(database, 'api_tokens', cursor, rows);
        if (wrong !== null) return wrong;
        return done(200, pageOf(rows, limit));
      },
    }),

    /** Only this response contains the token. */
    createToken: operation({
      stepUp: true,
      idempotent: true,
      input: tokenInput,
      answers: { 201: tokenSchema.extend({ token: z.string().describe('the token; shown only in this response') }) },
      problems: ['tokens_too_many', 'session_required', 'user_unknown'],
      handle: async ({ who, input, actor }) => {
        const owner = await ownerOf(database, who, input.user_id);
        if (owner.kind === 'problem') return owner;
        const role = input.role ?? owner.value.role;
        if (!allows(owner.value.role, role))
          return invalid('/role', `Your role is ${owner.value.role}: a token cannot have a higher one.`);
        const expiresAt = expiryOf(input);
        if (isPowerful(role, expiresAt) && isBearer(who)) return problem('session_required', NOT_BY_TOKEN);
        const notAfter = who.via.kind === 'jwt' ? who.via.expiresAt : null;
        const expiryPointer = input.expires_at === undefined ? '/expires_in_days' : '/expires_at';
        const order = { userId: owner.value.id, name: input.name, role, expiresAt, expiryPointer, notAfter };
        return replyTo(await new Tokens(database, actor).add(order), ({ token, text }) =>
          done(201, { ...token, token: text }, { location: `/api/v1/tokens/${token.id}` }),
        );
      },
    }),

    showToken: operation({
      id,
      answers: { 200: tokenSchema },
      handle: async ({ who, id }) => found(await findTokenRecord(database, id, scopeOf(who)), 'token_unknown'),
    }),

    /** Succeeds also for a token that is already revoked. */
    revokeToken: operation({
      id,
      answers: { 204: null },
      problems: ['session_required'],
      handle: async ({ who, id, actor }) => {
        const token = await findTokenRecord(database, id, scopeOf(who));
        if (token === undefined) return problem('token_unknown');
        const isOwn = token.user_id === who.id && token.agent_id === null;
        if (isOwn && !(await mayRevokeOwn(database, who, id))) return problem('session_required');
        return replyTo(await new Tokens(database, actor).revoke(id, scopeOf(who)), () => done(204));
      },
    }),
  };
}

/** The owner of a new token: the requester, or the user that a command on this machine names. */
async function ownerOf(
  database: Database,
  who: Person,
  userId: string | undefined,
): Promise<Result<{ id: string; role: Role }>> {
  if (who.via.kind !== 'local')
    return userId === undefined ? { kind: 'done', value: who } : invalid('/user_id', 'A token belongs to its creator.');
  const user = userId === undefined ? undefined : await findUser(database, { id: userId });
  return user === undefined || user.disabled ? problem('user_unknown') : { kind: 'done', value: user };
}

/** Null: never expires; undefined: not given. */
function expiryOf({ expires_at: at, expires_in_days: days }: z.output<typeof tokenInput>): Date | null | undefined {
  if (at === null || days === null) return null;
  if (days !== undefined) return inDays(days);
  return at === undefined ? undefined : new Date(at);
}

function isAdministrator({ role }: Person): boolean {
  return role === 'administrator';
}

/** Whether a token may not create this token: one for an administrator, or without an expiry. */
function isPowerful(role: Role, expiresAt: Date | null | undefined): boolean {
  return role === 'administrator' || expiresAt === null;
}

const NOT_BY_TOKEN =
  'A token cannot create a token for an administrator or without an expiry: use the session cookie of a signed-in browser, or weir token add.';

/** A token may revoke itself and the tokens that it created. Revoking any other token of the user requires a session. */
async function mayRevokeOwn(database: Database, { via }: Person, id: string): Promise<boolean> {
  if (via.kind === 'session') return true;
  return via.kind === 'token' && isCreatedBy(database, id, via.tokenId);
}

/** The tokens that this person may see. Operators may revoke agents, so they also see the tokens of OAuth clients that act as agents. */
function scopeOf(who: Person): TokenScope {
  return { userId: isAdministrator(who) ? null : who.id, ofAgents: allows(who.role, 'operator') };
}
