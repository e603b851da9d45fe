/** Checks stored rejections again with the present settings of their webhooks. */
import type { Diagnosed } from '../../../workers/diagnose.ts';
import { problem, type Result } from '../../base/http/problem.ts';
import type { RejectionReason } from '../../model/signatures/diagnosis/reasons.ts';
import type { Diagnosis, RefusedRequest } from '../../model/signatures/diagnosis/refused.ts';
import type { Actor } from '../../store/audit/actor.ts';
import { record } from '../../store/audit/record.ts';
import { listSimilarRejections } from '../../store/queries/rejections/groups.ts';
import {
  findRejection,
  type RejectionDetail,
  type RejectionRecord,
  setRejectionChecked,
} from '../../store/queries/rejections/rejections.ts';
import { type Accepted, type AcceptParts, acceptRejection } from './accept.ts';
import { readKeyrings, storedRequest, unavailable } from './keyrings.ts';

export interface RejectionParts extends AcceptParts {
  diagnose: (requests: readonly RefusedRequest[]) => Promise<Pick<Diagnosed, 'diagnosis'>[]>;
}

/** `verified` of `checked` rejections verify now. */
interface SimilarChecked {
  checked: number;
  verified: number;
}

/** Rejections that one fix checks again, with their bodies: at most 6.4 MB at the default REJECTION_BODY_BYTES_MAX. */
export const SIMILAR_MAX = 100;
/** Requests of one round of the thread, as in the sampler: its timeout is for 25. */
const ROUND_MAX = 25;

export class Rejections {
  readonly #parts: RejectionParts;

  constructor(parts: RejectionParts) {
    this.#parts = parts;
  }

  /** Stores the refused request as an event if it verifies with the present settings. */
  accept(id: string, actor: Actor): Promise<Result<Accepted>> {
    return acceptRejection(this.#parts, id, actor);
  }

  /** Checks the stored request with the webhook's present secrets and signature header, and stores the result. */
  async recheck(id: string, actor: Actor): Promise<Result<RejectionRecord>> {
    const { database } = this.#parts;
    const rejection = await findRejection(database.query, id);
    if (rejection === undefined) return problem('rejection_unknown');
    if (rejection.body === null) return problem('rejection_without_body');
    const judged = await this.#judge([rejection]);
    if (judged === null) return unavailable;
    const { reason, otherWebhookId } = judged[0]!;
    return database.transaction<Result<RejectionRecord>>(async (query) => {
      await setRejectionChecked(query, id, reason, otherWebhookId);
      const checked = await findRejection(query, id);
      if (checked === undefined) return problem('rejection_unknown');
      await record(query, actor, {
        action: 'rejection.recheck',
        target: { kind: 'rejection', id, name: rejection.webhook_name },
        before: { reason: rejection.checked_reason ?? rejection.reason },
        after: { reason, verified: reason === 'verifies_now' },
      });
      return { kind: 'done', value: checked };
    });
  }

  /**
   * Checks the newest rejections again that resemble this one: same webhook, reason and header, at most SIMILAR_MAX.
   * @param change what was changed at the webhook before, for the audit log
   */
  async recheckSimilar(rejection: RejectionRecord, change: object, actor: Actor): Promise<Result<SimilarChecked>> {
    const { database } = this.#parts;
    const similar = await listSimilarRejections(database.query, rejection, SIMILAR_MAX);
    const judged = await this.#judge(similar);
    if (judged === null) return unavailable;
    const verified = judged.filter(({ reason }) => reason === 'verifies_now').length;
    const outcome = { checked: judged.length, verified };
    await database.transaction(async (query) => {
      for (const { id, reason, otherWebhookId } of judged) await setRejectionChecked(query, id, reason, otherWebhookId);
      await record(query, actor, {
        action: 'rejection.fix',
        target: { kind: 'rejection', id: rejection.id, name: rejection.webhook_name },
        before: { reason: rejection.checked_reason ?? rejection.reason },
        after: { ...change, ...outcome },
      });
    });
    return { kind: 'done', value: outcome };
  }

  /** @returns null when a secret cannot be opened, or the thread fails */
  async #judge(rejections: readonly RejectionDetail[]): Promise<Judged[] | null> {
    const { database, keys, diagnose } = this.#parts;
    const ids = [...new Set(rejections.map(({ webhook_id }) => webhook_id))];
    const keyrings = await readKeyrings(database.query, keys, ids);
    if (ids.some((id) => !keyrings.has(id))) return null;
    const judged: Judged[] = [];
    for (let from = 0; from < rejections.length; from += ROUND_MAX) {
      const round = rejections.slice(from, from + ROUND_MAX);
      const requests = round.map((one) => storedRequest(one, one.body!, keyrings.get(one.webhook_id)!));
      const diagnosed = await diagnose(requests).catch(() => null);
      if (diagnosed === null) return null;
      for (const [i, { diagnosis }] of diagnosed.entries()) judged.push(judgedOf(round[i]!, diagnosis));
    }
    return judged;
  }
}

interface Judged {
  id: string;
  reason: RejectionReason;
  otherWebhookId: string | null;
}

function judgedOf({ id, reason: first, signatures }: RejectionDetail, { reason: now, ...rest }: Diagnosis): Judged {
  // Without the signature value the reason cannot change, unless the webhook no longer requires a signature.
  const isWhole = signatures.every(({ value }) => value !== null);
  return {
    id,
    reason: now === 'verifies_now' || isWhole ? now : first,
    otherWebhookId: rest.otherWebhookId ?? null,
  };
}
