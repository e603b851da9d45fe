/** Checks stored rejections again with the present settings of their webhooks. */
import { randomBytes } from 'node:crypto';
import type { Diagnosed } from '../../../workers/diagnose.ts';
import { problem, type Result } from '../../base/http/problem.ts';
import { inetBytes } from '../../model/address.ts';
import { orderReader } from '../../model/order-by.ts';
import { verifies } from '../../model/signatures/diagnosis/diagnose.ts';
import type { RejectionReason } from '../../model/signatures/diagnosis/reasons.ts';
import type { Diagnosis, RefusedRequest } from '../../model/signatures/diagnosis/refused.ts';
import { eventTypeReader } from '../../model/signatures/event-type.ts';
import { readableBody } from '../../model/signatures/gzip.ts';
import { readStoredHeaders } from '../../model/signatures/stored-headers.ts';
import { type Actor, record } from '../../store/audit/record.ts';
import type { Database } from '../../store/connect/pool.ts';
import { uuidBytes, uuidText, uuidv7 } from '../../store/ids.ts';
import { type KeyedRow, storeDeduped } from '../../store/queries/events/store-deduped.ts';
import {
  findRejection,
  listSimilarRejections,
  lockRejection,
  type RejectionDetail,
  type RejectionRecord,
  setRejectionAccepted,
  setRejectionChecked,
} from '../../store/queries/rejections/rejections.ts';
import { nearestWithin, readHorizon } from '../../store/retention/partitions.ts';
import { dedupeKey } from '../ingest/store.ts';
import { ROUND_MAX, readKeyrings, storedRequest, verificationUnavailable } from './sampler.ts';

export interface RejectionParts {
  database: Database;
  /** Keys that encrypt webhook secrets, current first. */
  keys: readonly Buffer[];
  /** RETENTION_DAYS: a dedupe key expires with its event. */
  retentionDays: number;
  diagnose: (requests: readonly RefusedRequest[]) => Promise<Pick<Diagnosed, 'diagnosis'>[]>;
}

/** Header with the time when the request was refused. The `received_at` of the event is the time of acceptance. */
const REFUSED_AT_HEADER = 'weir-refused-at';

/** `isNew`: false if the event was stored before: the rejection was accepted, or the sender retried it with the same dedupe_header. */
interface Accepted {
  eventId: string;
  isNew: boolean;
}

/** `verified` of `checked` rejections verify now. */
interface SimilarChecked {
  checked: number;
  verified: number;
}

/** Rejections that one fix checks again, with their bodies: at most 6.4 MB at the default REJECTION_BODY_BYTES_MAX. */
export const SIMILAR_MAX = 100;

export class Rejections {
  readonly #parts: RejectionParts;

  constructor(parts: RejectionParts) {
    this.#parts = parts;
  }

  /** Stores the refused request as an event if it verifies with the present settings. Repeated or concurrent calls store at most one. */
  async accept(id: string, actor: Actor): Promise<Result<Accepted>> {
    const { database, keys, retentionDays } = this.#parts;
    // Not null: the process that stored the rejection had partitions.
    const horizon = (await readHorizon(database))!;
    return database.transaction<Result<Accepted>>(async (query) => {
      const rejection = await lockRejection(query, id);
      if (rejection === undefined) return problem('rejection_unknown');
      const { accepted_event_id: known, body, webhook_id, webhook_name } = rejection;
      if (known !== null) return { kind: 'done', value: { eventId: known, isNew: false } };
      if (!rejection.webhook_enabled) return problem('webhook_disabled');
      if (rejection.batch) return problem('rejection_of_batch');
      if (body === null) return problem('rejection_without_body');
      const keyring = (await readKeyrings(query, keys, [webhook_id], 0)).get(webhook_id);
      if (keyring === undefined) return verificationUnavailable;
      if (!verifies(storedRequest(rejection, body, keyring))) return problem('rejection_unverified');

      const row = eventOf(rejection, body, nearestWithin(horizon, Date.now()));
      const [eventId] = await storeDeduped({ query }, [row], retentionDays, rejection.webhook_cell);
      if (eventId == null) return problem('webhook_moving');
      await setRejectionAccepted(query, id, eventId);
      await record(query, actor, {
        action: 'rejection.accept',
        target: { kind: 'rejection', id, name: webhook_name },
        after: { event_id: eventId },
      });
      return { kind: 'done', value: { eventId, isNew: eventId === uuidText(row.id) } };
    });
  }

  /** Checks the stored request with the webhook's present secrets and signature header, and stores the result. */
  async recheck(id: string, actor: Actor): Promise<Result<RejectionRecord>> {
    const { database } = this.#parts;
    const rejection = await findRejection(database.query, id);
    if (rejection === undefined) return problem('rejection_unknown');
    if (rejection.body === null) return problem('rejection_without_body');
    const judged = await this.#judge([rejection]);
    if (judged === null) return verificationUnavailable;
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
   * Checks the newest rejections with the same webhook, reason and header again, at most SIMILAR_MAX.
   * @param change what was changed at the webhook before, for the audit log
   */
  async recheckSimilar(rejection: RejectionRecord, change: object, actor: Actor): Promise<Result<SimilarChecked>> {
    const { database } = this.#parts;
    const similar = await listSimilarRejections(database.query, rejection, SIMILAR_MAX);
    const judged = await this.#judge(similar);
    if (judged === null) return verificationUnavailable;
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

  /** Diagnoses the rejections in rounds. Returns null when a secret cannot be opened, or the thread fails. */
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
  // A rejection without the stored signature keeps its first reason, unless the webhook requires no signature now.
  const isWhole = signatures.every(({ value }) => value !== null);
  return {
    id,
    reason: now === 'verifies_now' || isWhole ? now : first,
    otherWebhookId: rest.otherWebhookId ?? null,
  };
}

function eventOf(rejection: RejectionDetail, body: Buffer, receivedAtMs: number): KeyedRow {
  const headers = readStoredHeaders(rejection.headers);
  const scheme = { name: rejection.signature_scheme, headers: [] };
  const typeOf = eventTypeReader(rejection.event_type_from, scheme);
  const keysOf = orderReader(rejection.webhook_orders, uuidBytes(rejection.webhook_id));
  const request = { header: (name: string) => headers[name] };
  const json = readableBody(body, headers['content-encoding']);
  const refusedAt = `${REFUSED_AT_HEADER}: ${rejection.received_at}`;
  return {
    id: uuidv7(receivedAtMs, randomBytes(16), rejection.webhook_cell),
    webhookId: uuidBytes(rejection.webhook_id),
    receivedAtMs,
    sourceIp: inetBytes(rejection.source_ip),
    headers: Buffer.from(rejection.headers === '' ? refusedAt : `${rejection.headers}\n${refusedAt}`),
    contentType: headers['content-type'] ?? null,
    eventType: typeOf?.(request, json) ?? null,
    body,
    orderKeys: keysOf?.(request, json) ?? null,
    // A request without the webhook's dedupe_header gets a key from the rejection's id.
    key: rejection.dedupe_key ?? dedupeKey(rejection.id),
  };
}
