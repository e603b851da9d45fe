/** Checks stored rejections again with the present settings of their webhooks. */
import type { Diagnosed } from '../../workers/diagnose.ts';
import type { Actor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import { findRejection, type RejectionRecord, setRejectionChecked } from '../db/queries/rejections.ts';
import type { RefusedRequest } from '../signatures/diagnosis/diagnose.ts';
import { restoredRequest } from '../signatures/diagnosis/kept-request.ts';
import { type Accepted, type AcceptParts, acceptRejection } from './accept.ts';
import { readKeyrings } from './keyrings.ts';

export interface RejectionParts extends AcceptParts {
  diagnose: (requests: readonly RefusedRequest[]) => Promise<Pick<Diagnosed, 'diagnosis'>[]>;
}

export type Recheck =
  | { kind: 'done'; rejection: RejectionRecord }
  | { kind: 'unknown' }
  | { kind: 'without_body' }
  | { kind: 'unavailable' };

export class Rejections {
  readonly #parts: RejectionParts;

  constructor(parts: RejectionParts) {
    this.#parts = parts;
  }

  /** Stores the refused request as an event if it verifies with the present settings. */
  accept(id: string, actor: Actor): Promise<Accepted> {
    return acceptRejection(this.#parts, id, actor);
  }

  /** Checks the stored request with the webhook's present secrets and signature header, and stores the result. */
  async recheck(id: string, actor: Actor): Promise<Recheck> {
    const { database, keys, diagnose } = this.#parts;
    const rejection = await findRejection(database.query, id);
    if (rejection === undefined) return { kind: 'unknown' };
    if (rejection.body === null) return { kind: 'without_body' };
    const keyring = (await readKeyrings(database.query, keys, [rejection.webhook_id])).get(rejection.webhook_id);
    if (keyring === undefined) return { kind: 'unavailable' };
    const request = restoredRequest(rejection, rejection.body, keyring);
    const diagnosed = await diagnose([request]).catch(() => null);
    if (diagnosed === null) return { kind: 'unavailable' };
    const { reason: now, otherWebhookId = null } = diagnosed[0]!.diagnosis;
    const verified = now === 'verifies_now';
    // Without the signature value the reason cannot change, unless the webhook no longer requires a signature.
    const isWhole = rejection.signatures.every(({ value }) => value !== null);
    const reason = verified || isWhole ? now : rejection.reason;
    return database.transaction<Recheck>(async (query) => {
      await setRejectionChecked(query, id, reason, otherWebhookId);
      const checked = await findRejection(query, id);
      if (checked === undefined) return { kind: 'unknown' };
      await record(query, actor, {
        action: 'rejection.recheck',
        target: { kind: 'rejection', id, name: rejection.webhook_name },
        before: { reason: rejection.checked_reason ?? rejection.reason },
        after: { reason, verified },
      });
      return { kind: 'done', rejection: checked };
    });
  }
}
