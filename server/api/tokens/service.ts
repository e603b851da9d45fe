/** API tokens `wu_…`: each a user's own, with that user's role or less, shown once. Requests read them from the database. */
import { randomUUID } from 'node:crypto';
import type { Actor } from '../../audit/actor.ts';
import { record } from '../../audit/record.ts';
import { makeCredential } from '../../auth/credential.ts';
import type { Database } from '../../db/pool.ts';
import {
  countTokens,
  findTokenRecord,
  insertToken,
  isCreatedBy,
  listTokens,
  lockTokensOf,
  readExpiry,
  revokeTokens,
  type TokenRecord,
} from '../../db/queries/tokens.ts';
import type { Role } from '../../db/roles.ts';

/** Tokens of one user that are in force at a time. */
export const TOKENS_MAX = 100;
/** Days for which a token holds, unless somebody says otherwise. */
export const EXPIRY_DAYS = 90;
export const EXPIRY_DAYS_MAX = 3650;

interface TokenOrder {
  userId: string;
  /** Checked, as nameText does. */
  name: string;
  /** At most that of the user, which the caller knows. */
  role: Role;
  /** Null: never; undefined: after EXPIRY_DAYS, or with the token that makes it. */
  expiresAt: Date | null | undefined;
}

/** `text` is the token itself. `outlives`: it would hold longer than the token that makes it, which ends then. */
type TokenMade =
  | { kind: 'made'; token: TokenRecord; text: string }
  | { kind: 'user_gone' }
  | { kind: 'too_many' }
  | { kind: 'outlives'; expiresAt: Date };

export class Tokens {
  readonly #database: Database;
  readonly #actor: Actor;

  /** @param actor who makes the changes. A token that makes another one cannot outlive itself by it. */
  constructor(database: Database, actor: Actor) {
    this.#database = database;
    this.#actor = actor;
  }

  async add({ userId, name, role, expiresAt: wanted }: TokenOrder): Promise<TokenMade> {
    const id = randomUUID();
    const madeBy = this.#actor.token_id;
    return this.#database.transaction<TokenMade>(async (query) => {
      if (!(await lockTokensOf(query, userId))) return { kind: 'user_gone' };
      if ((await countTokens(query, userId)) >= TOKENS_MAX) return { kind: 'too_many' };
      const maker = madeBy === null ? { expiresAt: null } : await readExpiry(query, madeBy);
      if (maker === undefined) return { kind: 'user_gone' };
      const expiresAt = wanted === undefined ? earlier(inDays(EXPIRY_DAYS), maker.expiresAt) : wanted;
      if (maker.expiresAt !== null && (expiresAt === null || expiresAt > maker.expiresAt))
        return { kind: 'outlives', expiresAt: maker.expiresAt };
      const { text, ...stored } = makeCredential('wu');
      await insertToken(query, { id, userId, name, role, expiresAt, madeBy, ...stored });
      const token = (await findTokenRecord({ query }, id, null))!;
      await record(query, this.#actor, { action: 'token.create', target: targetOf(token), after: token });
      return { kind: 'made', token, text };
    });
  }

  /** Newest first, ended ones too. @param userId null: everybody's. @param before id of the last token of the page before. */
  list(userId: string | null, before: string | null, limit: number): Promise<TokenRecord[]> {
    return listTokens(this.#database, userId, before, limit);
  }

  /** @param userId whose it must be; null: anybody's. */
  find(id: string, userId: string | null): Promise<TokenRecord | undefined> {
    return findTokenRecord(this.#database, id, userId);
  }

  /** True of the token `ancestorId` and of those that it created, directly or through tokens that it created. */
  isOfFamily(id: string, ancestorId: string): Promise<boolean> {
    return isCreatedBy(this.#database, id, ancestorId);
  }

  /** Ends a token, and those that its requests made. `before`: it had been revoked already, and nothing changed. */
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

/** That many days from now. */
export function inDays(days: number): Date {
  return new Date(Date.now() + days * 86_400_000);
}

function earlier(one: Date, other: Date | null): Date {
  return other !== null && other < one ? other : one;
}

function targetOf({ id, name }: TokenRecord): { kind: string; id: string; name: string } {
  return { kind: 'token', id, name };
}
