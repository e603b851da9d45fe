/** Accepts a stored rejection that verifies now: stores its request as an event. */
import { randomBytes } from 'node:crypto';
import { problem, type Result } from '../../base/http/problem.ts';
import { inetBytes } from '../../model/address.ts';
import { verifies } from '../../model/signatures/diagnosis/diagnose.ts';
import { eventTypeReader } from '../../model/signatures/event-type.ts';
import { readableBody } from '../../model/signatures/gzip.ts';
import { readStoredHeaders } from '../../model/signatures/stored-headers.ts';
import type { Actor } from '../../store/audit/actor.ts';
import { record } from '../../store/audit/record.ts';
import type { Database } from '../../store/connect/pool.ts';
import { uuidBytes, uuidText, uuidv7 } from '../../store/ids.ts';
import { type KeyedRow, storeDeduped } from '../../store/queries/events/store-deduped.ts';
import {
  lockRejection,
  type RejectionDetail,
  setRejectionAccepted,
} from '../../store/queries/rejections/rejections.ts';
import { nearestWithin, readHorizon } from '../../store/retention/partitions.ts';
import { dedupeKey } from '../ingest/rows.ts';
import { readKeyrings, storedRequest, unavailable } from './keyrings.ts';

/** Header with the time when the request was refused. The `received_at` of the event is the time of acceptance. */
const REFUSED_AT_HEADER = 'weir-refused-at';

/** `isNew`: false if the event was stored already: it was accepted before, or the sender retried it (known by the webhook's dedupe_header). */
export interface Accepted {
  eventId: string;
  isNew: boolean;
}

export interface AcceptParts {
  database: Database;
  /** Keys that encrypt webhook secrets, current first. */
  keys: readonly Buffer[];
  /** RETENTION_DAYS: a dedupe key expires with its event. */
  retentionDays: number;
}

/** Accepts a rejection. Repeated or concurrent calls store at most one event. */
export async function acceptRejection(
  { database, keys, retentionDays }: AcceptParts,
  id: string,
  actor: Actor,
): Promise<Result<Accepted>> {
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
    if (keyring === undefined) return unavailable;
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

function eventOf(rejection: RejectionDetail, body: Buffer, receivedAtMs: number): KeyedRow {
  const headers = readStoredHeaders(rejection.headers);
  const scheme = { name: rejection.signature_scheme, headers: [] };
  const typeOf = eventTypeReader(rejection.event_type_from, scheme);
  const refusedAt = `${REFUSED_AT_HEADER}: ${rejection.received_at}`;
  return {
    id: uuidv7(receivedAtMs, randomBytes(16), rejection.webhook_cell),
    webhookId: uuidBytes(rejection.webhook_id),
    receivedAtMs,
    sourceIp: inetBytes(rejection.source_ip),
    headers: Buffer.from(rejection.headers === '' ? refusedAt : `${rejection.headers}\n${refusedAt}`),
    contentType: headers['content-type'] ?? null,
    eventType: typeOf?.({ header: (name) => headers[name] }, readableBody(body, headers['content-encoding'])) ?? null,
    body,
    // Without the webhook's dedupe_header, the key is that of the rejection's id.
    key: rejection.dedupe_key ?? dedupeKey(rejection.id),
  };
}
