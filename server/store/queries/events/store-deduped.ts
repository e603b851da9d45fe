/** Deduplication: stores an event once for each key of its webhook, whichever process or retry brings it. */
import { addressFromBytes } from '../../../model/address.ts';
import type { Database, Queries } from '../../connect/pool.ts';
import type { EventRow } from '../../copy/rows.ts';
import { uuidText } from '../../ids.ts';
import { arrayOf } from '../../sql.ts';

/** An event that is stored unless its webhook already has its deduplication key. */
export interface KeyedRow extends EventRow {
  key: Uint8Array;
}

/** Header of Postgres's binary inet, before the address. */
const INET_HEAD_BYTES = 4;

/**
 * Stores the events whose keys are new or expired, and their keys, in one transaction with one statement. Returns for each row the id
 * of the event of its key: the row's own id if it was stored; null: its webhook is moving to another cell, and no event with a key is stored
 * until the move ends. Rejects with the server's error, or without a code when the connection was lost.
 *
 * Keys are inserted in sorted order, so that two statements with common keys cannot deadlock. An existing key is updated with its own
 * values, because the update returns the row as committed now, not as of the statement's snapshot.
 * Text arrays reach 19 to 26 thousand rows/s; COPY reaches 55 to 62 but has no ON CONFLICT. Bodies are base64, a third shorter than hex.
 * @param rows keys are unique within a webhook.
 * @param cell number of the cell of this database
 */
export async function storeDeduped(
  database: Queries,
  rows: readonly KeyedRow[],
  retentionDays: number,
  cell = 0,
): Promise<(string | null)[]> {
  const found = await database.query<{ eventId: string | null }>({
    name: 'store-deduped',
    text: `
      with given as materialized (
        select * from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::inet[], $5::text[], $6::text[], $7::text[],
            $8::integer[], $9::text[], $11::text[], $13::text[]) with ordinality
          as row (id, webhook_id, received_at, source_ip, headers, content_type, body, bytes, key, event_type, order_keys, place)
      ), claimed as (
        insert into dedupe_keys as known (webhook_id, key, event_id, expires_at)
        select webhook_id, decode(key, 'base64'), given.id,
          now() + make_interval(days => least($10::integer, webhooks.retention_days))
        from given left join webhooks on webhooks.id = webhook_id
        where webhooks.id is null or (webhooks.cell = $12 and webhooks.moving_from is null)
        order by webhook_id, decode(key, 'base64')
        on conflict (webhook_id, key) do update set
          event_id = case when known.expires_at > now() then known.event_id else excluded.event_id end,
          expires_at = case when known.expires_at > now() then known.expires_at else excluded.expires_at end
        returning known.webhook_id, known.key, known.event_id
      ), stored as (
        insert into events (id, webhook_id, received_at, source_ip, headers, content_type, event_type, body, bytes, order_keys)
        select given.id, given.webhook_id, given.received_at, given.source_ip, decode(given.headers, 'base64'),
          convert_from(decode(given.content_type, 'base64'), 'UTF8'),
          convert_from(decode(given.event_type, 'base64'), 'UTF8'), decode(given.body, 'base64'), given.bytes,
          string_to_array(given.order_keys, ' ')::bigint[]
        from given join claimed on claimed.event_id = given.id and claimed.webhook_id = given.webhook_id
      )
      select claimed.event_id as "eventId"
      from given left join claimed on claimed.webhook_id = given.webhook_id and claimed.key = decode(given.key, 'base64')
      order by given.place`,
    values: [
      arrayOf(rows.map(({ id }) => uuidText(id))),
      arrayOf(rows.map(({ webhookId }) => uuidText(webhookId))),
      arrayOf(rows.map(({ receivedAtMs }) => new Date(receivedAtMs).toISOString())),
      arrayOf(rows.map(({ sourceIp }) => addressFromBytes(sourceIp.subarray(INET_HEAD_BYTES)))),
      arrayOf(rows.map(({ headers }) => base64(headers))),
      arrayOf(rows.map(({ contentType }) => (contentType === null ? null : base64(Buffer.from(contentType))))),
      arrayOf(rows.map(({ body }) => base64(body))),
      arrayOf(rows.map(({ body }) => String(body.length))),
      arrayOf(rows.map(({ key }) => base64(key))),
      retentionDays,
      arrayOf(rows.map(({ eventType }) => (eventType === null ? null : base64(Buffer.from(eventType))))),
      cell,
      // Quoted for the spaces.
      arrayOf(rows.map(({ orderKeys }) => orderKeys && `"${orderKeys.join(' ')}"`)),
    ],
    place: { cell },
  });
  return found.map(({ eventId }) => eventId);
}

/**
 * Returns for each row the id of the event of its key at this time, or null. Rejects when the query fails. Taking a transaction id makes the
 * statement wait until a synchronous standby has the keys: after a crash, Postgres also shows rows that no standby has.
 */
export async function findDeduped(database: Database, rows: readonly KeyedRow[]): Promise<(string | null)[]> {
  const found = await database.query<{ eventId: string | null }>({
    name: 'find-deduped',
    text: `
      select known.event_id as "eventId", pg_current_xact_id() as "waits"
      from unnest($1::uuid[], $2::text[]) with ordinality as given (webhook_id, key, place)
      left join dedupe_keys known
        on known.webhook_id = given.webhook_id and known.key = decode(given.key, 'base64') and known.expires_at > now()
      order by given.place`,
    values: [arrayOf(rows.map(({ webhookId }) => uuidText(webhookId))), arrayOf(rows.map(({ key }) => base64(key)))],
  });
  return found.map(({ eventId }) => eventId);
}

/** Encodes the bytes as base64 without copying them first. */
function base64({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString('base64');
}
