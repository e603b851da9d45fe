/**
 * Idempotency-Key (draft-ietf-httpapi-idempotency-key-header-07): a create that is repeated, since its answer was lost, is done once
 * and answered the same.
 *
 *     taken ----> changed ----> answered       24 hours, then it is forgotten
 *       |  in the      after
 *       |  change's    the
 *       |  transaction commit
 *       +--> given back, when nothing was changed; or free after a minute, when the process died
 *
 * `changed` is written with the change itself (audit/record.ts): whatever dies in between, nothing is done twice.
 */
import { createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import type { Actor } from '../audit/actor.ts';
import type { Database } from '../db/pool.ts';
import { giveKeyBack, type KeyOf, keepAnswer, markChanged, takeKey } from '../db/queries/idempotency.ts';
import type { Role } from '../db/roles.ts';
import type { ProblemCode } from '../errors.ts';
import { seal, unseal } from '../secrets/seal.ts';

/** An answer that went well, as it is sent. */
export interface Rendered {
  status: number;
  headers: Record<string, string>;
  text: string;
}

interface KeyedRequest {
  key: string;
  method: string;
  path: string;
  input: unknown;
  /** In force now: a weaker token is not told what a stronger one of the same user was answered. */
  role: Role;
}

/** `again`: nothing was done, this was answered before. */
export type Once<T> =
  | { kind: 'done'; value: T }
  | { kind: 'again'; answer: Rendered }
  | { kind: 'refused'; code: ProblemCode };

/** 1 to 255 printable characters of ASCII. */
export function isKey(text: string): boolean {
  return /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/.test(text);
}

export class Idempotency {
  readonly #database: Database;
  readonly #keys: readonly Buffer[];

  /** @param keys derived for this, current first. */
  constructor(database: Database, keys: readonly Buffer[]) {
    this.#database = database;
    this.#keys = keys;
  }

  /**
   * Does the work once for a key of a person. Rejects with what the work rejects with.
   * @param work with the actor that its change is to be recorded by.
   * @param rendered the answer to keep; null when nothing was changed.
   */
  async once<T>(
    request: KeyedRequest,
    actor: Actor & { id: string },
    work: (actor: Actor) => Promise<T>,
    rendered: (value: T) => Rendered | null,
  ): Promise<Once<T>> {
    const own: KeyOf = { userId: actor.id, key: request.key };
    const attempt = randomUUID();
    const kept = await takeKey(this.#database, own, this.#fingerprint(request, this.#keys[0]!), attempt);
    if (kept !== undefined) return this.#answerAgain(request, own, kept);
    try {
      const value = await work({ ...actor, confirm: (query) => this.#confirm(query, attempt, own) });
      const answer = rendered(value);
      if (answer === null) await giveKeyBack(this.#database, attempt, own);
      // The change is made: that its answer cannot be kept is no reason not to give it.
      else await keepAnswer(this.#database, attempt, own, this.#seal(answer, request, own)).catch(() => {});
      return { kind: 'done', value };
    } catch (error) {
      if (error instanceof KeyLost) return { kind: 'refused', code: 'idempotency_in_progress' };
      await giveKeyBack(this.#database, attempt, own).catch(() => {});
      throw error;
    }
  }

  async #confirm(query: Database['query'], attempt: string, own: KeyOf): Promise<void> {
    if (!(await markChanged(query, attempt, own))) throw new KeyLost();
  }

  #answerAgain(
    request: KeyedRequest,
    own: KeyOf,
    { fingerprint, changed, answer }: { fingerprint: Buffer; changed: boolean; answer: Buffer | null },
  ): Once<never> {
    const opened = answer && unseal(answer, this.#keys, contextOf(own));
    if (opened !== null) {
      const { request: digest, ...rendered } = JSON.parse(opened.toString('utf8')) as Kept;
      if (digest === undefined ? !this.#isSame(request, fingerprint) : digest !== digestOf(request))
        return { kind: 'refused', code: 'idempotency_key_reused' };
      return { kind: 'again', answer: rendered };
    }
    if (!this.#isSame(request, fingerprint)) return { kind: 'refused', code: 'idempotency_key_reused' };
    return { kind: 'refused', code: changed ? 'idempotency_answer_lost' : 'idempotency_in_progress' };
  }

  #isSame(request: KeyedRequest, fingerprint: Buffer): boolean {
    return this.#keys.some((key) => timingSafeEqual(this.#fingerprint(request, key), fingerprint));
  }

  #fingerprint(request: KeyedRequest, key: Buffer): Buffer {
    return createHmac('sha256', key).update(textOf(request)).digest();
  }

  #seal(answer: Rendered, request: KeyedRequest, own: KeyOf): Buffer {
    const kept: Kept = { ...answer, request: digestOf(request) };
    return seal(Buffer.from(JSON.stringify(kept)), this.#keys[0]!, contextOf(own));
  }
}

/**
 * What is sealed. The digest of the request is in it, so that it can be compared when the key that made the fingerprint is gone;
 * answers of earlier releases have none.
 */
type Kept = Rendered & { request?: string };

function digestOf(request: KeyedRequest): string {
  return createHash('sha256').update(textOf(request)).digest('base64');
}

/** Of the checked input: white space and the order of members do not matter. Passwords of requesters are not part of it. */
function textOf({ method, path, input, role }: KeyedRequest): string {
  return JSON.stringify([method, path, { ...(input as object), current_password: undefined }, role]);
}

/** The attempt took so long that another one has its key. Undoes the change. */
class KeyLost extends Error {}

function contextOf({ userId, key }: KeyOf): string {
  return `${userId} ${key}`;
}
