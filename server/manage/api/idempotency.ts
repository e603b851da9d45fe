/**
 * Idempotency-Key (draft-ietf-httpapi-idempotency-key-header-07): a create that is retried because its response was lost runs once
 * and gets the same response.
 *
 *     taken ----> changed ----> answered       deleted after 24 hours
 *       |  in the      after
 *       |  change's    the
 *       |  transaction commit
 *       +--> released if nothing was changed, or after a minute if the process died
 *
 * `changed` is written in the transaction of the change (store/audit/record.ts), so a crash at any point never causes a second change.
 */
import { createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { problem } from '../../base/http/problem.ts';
import type { Role } from '../../model/users.ts';
import type { Actor } from '../../store/audit/record.ts';
import type { Database } from '../../store/connect/pool.ts';
import { giveKeyBack, type KeyOf, keepAnswer, markChanged, takeKey } from '../../store/queries/users/idempotency.ts';
import { seal, unseal } from '../../store/secrets/seal.ts';
import type { Outcome } from './operation.ts';

/** A successful response, as sent. */
interface Rendered {
  status: number;
  headers: Record<string, string>;
  text: string;
}

interface KeyedRequest {
  userId: string;
  key: string;
  method: string;
  path: string;
  input: unknown;
  /**
   * Current role. Part of the comparison, so that a token with a lower role does not get the response of one with a higher role.
   */
  role: Role;
}

/** Whether the text is a valid key: 1 to 255 printable ASCII characters. */
export function isIdempotencyKey(text: string): boolean {
  return /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/.test(text);
}

export class Idempotency {
  readonly #database: Database;
  readonly #keys: readonly Buffer[];

  /** @param keys derived for idempotency, current first */
  constructor(database: Database, keys: readonly Buffer[]) {
    this.#database = database;
    this.#keys = keys;
  }

  /**
   * Runs the work once per user and key. Rejects with whatever the work rejects with.
   * @param work records its change with this `confirm`. Its response is stored if it is a success.
   */
  async once(
    request: KeyedRequest,
    work: (confirm: NonNullable<Actor['confirm']>) => Promise<Outcome>,
  ): Promise<Outcome> {
    const own: KeyOf = { userId: request.userId, key: request.key };
    const attempt = randomUUID();
    const kept = await takeKey(this.#database, own, this.#fingerprint(request, this.#keys[0]!), attempt);
    if (kept !== undefined) return this.#answerAgain(request, own, kept);
    try {
      const outcome = await work(async (query) => {
        if (!(await markChanged(query, attempt, own))) throw new KeyLost();
      });
      if (outcome.kind !== 'done') await giveKeyBack(this.#database, attempt, own);
      // The change is committed: a failure to store the response must not withhold it.
      else await keepAnswer(this.#database, attempt, own, this.#seal(outcome, request, own)).catch(() => {});
      return outcome;
    } catch (error) {
      if (error instanceof KeyLost) return problem('idempotency_in_progress');
      await giveKeyBack(this.#database, attempt, own).catch(() => {});
      throw error;
    }
  }

  #answerAgain(
    request: KeyedRequest,
    own: KeyOf,
    { fingerprint, lost, answer }: { fingerprint: Buffer; lost: boolean; answer: Buffer | null },
  ): Outcome {
    const opened = answer && unseal(answer, this.#keys, contextOf(own));
    if (opened !== null) {
      const { request: digest, ...rendered } = JSON.parse(opened.toString('utf8')) as Kept;
      if (digest !== digestOf(request)) return problem('idempotency_key_reused');
      const { status, text: content } = rendered;
      const headers = { ...rendered.headers, 'idempotent-replayed': 'true' };
      return { kind: 'encoded', status, contentType: 'application/json', content, headers };
    }
    const isSame = this.#keys.some((key) => timingSafeEqual(this.#fingerprint(request, key), fingerprint));
    if (!isSame) return problem('idempotency_key_reused');
    return problem(lost ? 'idempotency_response_lost' : 'idempotency_in_progress');
  }

  #fingerprint(request: KeyedRequest, key: Buffer): Buffer {
    return createHmac('sha256', key).update(textOf(request)).digest();
  }

  #seal({ status, headers, text }: Rendered, request: KeyedRequest, own: KeyOf): Buffer {
    const kept: Kept = { status, headers, text, request: digestOf(request) };
    return seal(Buffer.from(JSON.stringify(kept)), this.#keys[0]!, contextOf(own));
  }
}

/** The stored response before encryption. Its digest of the request can be compared after the key of the fingerprint was rotated away. */
type Kept = Rendered & { request: string };

function digestOf(request: KeyedRequest): string {
  return createHash('sha256').update(textOf(request)).digest('base64');
}

/** The request as text, with the validated input: white space and member order do not matter. The requester's password is left out. */
function textOf({ method, path, input, role }: KeyedRequest): string {
  return JSON.stringify([method, path, { ...(input as object), current_password: undefined }, role]);
}

/** Thrown when an attempt took so long that another one has taken its key. Rolls back the change. */
class KeyLost extends Error {}

function contextOf({ userId, key }: KeyOf): string {
  return `${userId} ${key}`;
}
