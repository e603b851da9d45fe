/**
 * API tokens `wu_…`: each belongs to a user, has at most the user's role, and is shown once. They are read from the database at
 * each request.
 */
import { randomUUID } from 'node:crypto';
import type { Actor } from '../../audit/actor.ts';
import { record } from '../../audit/record.ts';
import { createCredential } from '../../auth/credential.ts';
import type { Database } from '../../db/pool.ts';
import {
  countTokens,
  findTokenRecord,
  insertToken,
  isCreatedBy,
  lockTokensOf,
  readExpiry,
  revokeTokens,
  type TokenRecord,
} from '../../db/queries/tokens.ts';
import type { Role } from '../../resources/users.ts';

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
  /** When the JWT expires that creates it; absent or null: no JWT. */
  notAfter?: Date | null;
}

/**
 * `text` is the token itself. `outlives`: the new token would outlive the token that creates it, which expires at `expiresAt`.
 */
type TokenMade =
  | { kind: 'made'; token: TokenRecord; text: string }
  | { kind: 'user_gone' }
  | { kind: 'too_many' }
  | { kind: 'outlives'; expiresAt: Date };

export class Tokens {
  readonly #database: Database;
  readonly #actor: Actor;

  /** @param actor author of the changes. A token cannot create a token that outlives it */
  constructor(database: Database, actor: Actor) {
    this.#database = database;
    this.#actor = actor;
  }

  async add({ userId, name, role, expiresAt: wanted, notAfter = null }: TokenOrder): Promise<TokenMade> {
    const id = randomUUID();
    const madeBy = this.#actor.token_id;
    return this.#database.transaction<TokenMade>(async (query) => {
      if (!(await lockTokensOf(query, userId))) return { kind: 'user_gone' };
      if ((await countTokens(query, userId)) >= TOKENS_MAX) return { kind: 'too_many' };
      const maker = madeBy === null ? { expiresAt: notAfter } : await readExpiry(query, madeBy);
      if (maker === undefined) return { kind: 'user_gone' };
      const expiresAt = wanted === undefined ? earlier(inDays(EXPIRY_DAYS), maker.expiresAt) : wanted;
      if (maker.expiresAt !== null && (expiresAt === null || expiresAt > maker.expiresAt))
        return { kind: 'outlives', expiresAt: maker.expiresAt };
      const { text, ...stored } = createCredential('wu');
      await insertToken(query, { id, userId, name, role, expiresAt, madeBy, ...stored });
      const token = (await findTokenRecord({ query }, id, null))!;
      await record(query, this.#actor, { action: 'token.create', target: targetOf(token), after: token });
      return { kind: 'made', token, text };
    });
  }

  /** @param userId required owner; null: any user */
  find(id: string, userId: string | null): Promise<TokenRecord | undefined> {
    return findTokenRecord(this.#database, id, userId);
  }

  /** True for the token `ancestorId` and for the tokens that it created, directly or through other tokens. */
  isOfFamily(id: string, ancestorId: string): Promise<boolean> {
    return isCreatedBy(this.#database, id, ancestorId);
  }

  /** Revokes a token and the tokens created with it. `before`: it was already revoked, and nothing changed. */
  revoke(id: string, userId: string | null): Promise<'revoked' | 'before' | 'unknown'> {
    return this.#database.transaction(async (query) => {
      const before = await findTokenRecord({ query }, id, userId);
      if (before === undefined) return 'unknown';
      await lockTokensOf(query, before.user_id);
      const ids = await revokeTokens(query, id);
      if (!ids.includes(id)) return 'before';
      const after = {
        ...(await findTokenRecord({ query }, id, null))!,
        also_revoked: ids.filter((each) => each !== id),
      };
      await record(query, this.#actor, { action: 'token.revoke', target: targetOf(before), before, after });
      return 'revoked';
    });
  }
}

/** The time `days` days from now. */
export function inDays(days: number): Date {
  return new Date(Date.now() + days * 86_400_000);
}

function earlier(one: Date, other: Date | null): Date {
  return other !== null && other < one ? other : one;
}

function targetOf({ id, name }: TokenRecord): { kind: string; id: string; name: string } {
  return { kind: 'token', id, name };
}
