/** Accepts a rejection: stores a refused request as an event when it verifies with the present settings. */
import { randomBytes } from 'node:crypto';
import type { Actor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import { uuidBytes, uuidText, uuidv7 } from '../db/ids.ts';
import { nearestWithin, readHorizon } from '../db/partitions.ts';
import type { Database } from '../db/pool.ts';
import { lockRejection, type RejectionDetail, setRejectionAccepted } from '../db/queries/rejections.ts';
import { type KeyedRow, storeDeduped } from '../db/queries/store-deduped.ts';
import { dedupeKey } from '../ingest/rows.ts';
import { inetBytes } from '../net/address.ts';
import { verifies } from '../signatures/diagnosis/diagnose.ts';
import { restoredRequest } from '../signatures/diagnosis/kept-request.ts';
import { readStoredHeaders } from '../signatures/stored-headers.ts';
import { readKeyrings } from './keyrings.ts';

/** Header with the time when the request was refused. The `received_at` of the event is the time of acceptance. */
const REFUSED_AT_HEADER = 'weir-refused-at';

export type Accepted =
  | { kind: 'stored'; eventId: string }
  /** The event is stored already: it was accepted before, or the sender retried it (known by the webhook's dedupe_header). */
  | { kind: 'known'; eventId: string }
  | { kind: 'unknown' | 'disabled' | 'of_batch' | 'without_body' | 'unverified' | 'unavailable' };

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
): Promise<Accepted> {
  // Not null: the process that stored the rejection had partitions.
  const horizon = (await readHorizon(database))!;
  return database.transaction<Accepted>(async (query) => {
    const rejection = await lockRejection(query, id);
    if (rejection === undefined) return { kind: 'unknown' };
    const { accepted_event_id: known, body, webhook_id, webhook_name } = rejection;
    if (known !== null) return { kind: 'known', eventId: known };
    if (!rejection.webhook_enabled) return { kind: 'disabled' };
    if (rejection.batch) return { kind: 'of_batch' };
    if (body === null) return { kind: 'without_body' };
    const keyring = (await readKeyrings(query, keys, [webhook_id], 0)).get(webhook_id);
    if (keyring === undefined) return { kind: 'unavailable' };
    if (!verifies(restoredRequest(rejection, body, keyring))) return { kind: 'unverified' };

    const row = eventOf(rejection, body, nearestWithin(horizon, Date.now()));
    const [eventId] = (await storeDeduped({ query }, [row], retentionDays)) as [string];
    await setRejectionAccepted(query, id, eventId);
    await record(query, actor, {
      action: 'rejection.accept',
      target: { kind: 'rejection', id, name: webhook_name },
      after: { event_id: eventId },
    });
    return { kind: eventId === uuidText(row.id) ? 'stored' : 'known', eventId };
  });
}

function eventOf(rejection: RejectionDetail, body: Buffer, receivedAtMs: number): KeyedRow {
  const refusedAt = `${REFUSED_AT_HEADER}: ${rejection.received_at}`;
  return {
    id: uuidv7(receivedAtMs, randomBytes(16)),
    webhookId: uuidBytes(rejection.webhook_id),
    receivedAtMs,
    sourceIp: inetBytes(rejection.source_ip),
    headers: rejection.headers === '' ? refusedAt : `${rejection.headers}\n${refusedAt}`,
    contentType: readStoredHeaders(rejection.headers)['content-type'] ?? null,
    body,
    // Without the webhook's dedupe_header, the key is that of the rejection's id.
    key: rejection.dedupe_key ?? dedupeKey(rejection.id),
  };
}
