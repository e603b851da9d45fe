/**
 * API tokens `wu_…`: each belongs to a user, has at most the user's role, and is shown once. They are read from the database at
 * each request.
 */
import { randomUUID } from 'node:crypto';
import { invalid, problem, type Result } from '../../../base/http/problem.ts';
import { DAY_MS } from '../../../base/time/durations.ts';
import { createCredential } from '../../../model/credential.ts';
import type { Role } from '../../../model/users.ts';
import { type Actor, record } from '../../../store/audit/record.ts';
import type { Database } from '../../../store/connect/pool.ts';
import {
  countTokens,
  everyToken,
  findTokenRecord,
  insertToken,
  lockTokensOf,
  readExpiry,
  revokeTokens,
  type TokenRecord,
  type TokenScope,
} from '../../../store/queries/users/tokens.ts';

/** Active tokens per user. */
export const TOKENS_MAX = 100;
/** Default lifetime of a token, in days. */
export const EXPIRY_DAYS = 90;
export const EXPIRY_DAYS_MAX = 3650;

interface TokenOrder {
  userId: string;
  /** Validated by nameText. */
  name: string;
  /** At most the user's role; the caller checks this. */
  role: Role;
  /** Null: never expires; undefined: expires after EXPIRY_DAYS, or with the token that creates it if that is earlier. */
  expiresAt: Date | null | undefined;
  /** Pointer to the member of the input that says when it expires. */
  expiryPointer: string;
  /** Expiry of the JWT that creates the token; absent or null: no JWT creates it. */
  notAfter?: Date | null;
}

/** `text` is the token itself. */
interface TokenMade {
  token: TokenRecord;
  text: string;
}

export class Tokens {
  readonly #database: Database;
  readonly #actor: Actor;

  /** @param actor author of the changes. A token that is the author cannot create a token that is valid longer */
  constructor(database: Database, actor: Actor) {
    this.#database = database;
    this.#actor = actor;
  }

  async add({
    userId,
    name,
    role,
    expiresAt: wanted,
    expiryPointer,
    notAfter = null,
  }: TokenOrder): Promise<Result<TokenMade>> {
    const id = randomUUID();
    const madeBy = this.#actor.token_id;
    return this.#database.transaction<Result<TokenMade>>(async (query) => {
      if (!(await lockTokensOf(query, userId))) return problem('unauthenticated');
      if ((await countTokens(query, userId)) >= TOKENS_MAX) return problem('tokens_too_many');
      const maker = madeBy === null ? { expiresAt: notAfter } : await readExpiry(query, madeBy);
      if (maker === undefined) return problem('unauthenticated');
      const expiresAt = wanted === undefined ? earlier(inDays(EXPIRY_DAYS), maker.expiresAt) : wanted;
      if (maker.expiresAt !== null && (expiresAt === null || expiresAt > maker.expiresAt))
        return invalid(
          expiryPointer,
          `The creating token expires at ${maker.expiresAt.toISOString()}: the new token cannot be valid longer.`,
        );
      const { text, ...stored } = createCredential('wu');
      await insertToken(query, { id, userId, name, role, expiresAt, madeBy, ...stored });
      const token = (await findTokenRecord({ query }, id, everyToken))!;
      await record(query, this.#actor, { action: 'token.create', target: targetOf(token), after: token });
      return { kind: 'done', value: { token, text } };
    });
  }

  /** Revokes a token and the tokens created with it. Nothing changes if it was revoked already. @param reason for the audit log */
  revoke(id: string, scope: TokenScope, reason?: string): Promise<Result<null>> {
    return this.#database.transaction<Result<null>>(async (query) => {
      const before = await findTokenRecord({ query }, id, scope);
      if (before === undefined) return problem('token_unknown');
      await lockTokensOf(query, before.user_id);
      const ids = await revokeTokens(query, id);
      if (!ids.includes(id)) return { kind: 'done', value: null };
      const after = {
        ...(await findTokenRecord({ query }, id, everyToken))!,
        also_revoked: ids.filter((each) => each !== id),
        reason,
      };
      await record(query, this.#actor, { action: 'token.revoke', target: targetOf(before), before, after });
      return { kind: 'done', value: null };
    });
  }
}

/** The time in this many days. */
export function inDays(days: number): Date {
  return new Date(Date.now() + days * DAY_MS);
}

function earlier(one: Date, other: Date | null): Date {
  return other !== null && other < one ? other : one;
}

function targetOf({ id, name }: TokenRecord): { kind: string; id: string; name: string } {
  return { kind: 'token', id, name };
}
