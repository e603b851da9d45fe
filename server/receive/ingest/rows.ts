/** Converts verified requests to rows of `events`, with their deduplication keys. */
import { randomFillSync } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { readPointer } from '../../model/signatures/code-schemes.ts';
import { sha256 } from '../../model/signatures/keys.ts';
import { HeaderLines, printable } from '../../model/signatures/stored-headers.ts';
import type { EventRow } from '../../store/copy/rows.ts';
import { uuidv7 } from '../../store/ids.ts';
import type { Webhook } from './webhook.ts';

type OnMade = (exchange: Exchange, webhook: Webhook, id: Uint8Array) => void;

export class RowMaker {
  readonly #clampToPartitions: (ms: number) => number;
  readonly #onMade: OnMade | null;
  readonly #nextRandom = randomSource();
  readonly #lines = new HeaderLines();

  /**
   * @param clampToPartitions moves a time to the nearest one that has a partition.
   * @param onMade called for each request that becomes events, with the id of the first; null: nothing is traced
   */
  constructor(clampToPartitions: (ms: number) => number, onMade: OnMade | null = null) {
    this.#clampToPartitions = clampToPartitions;
    this.#onMade = onMade;
  }

  /** Converts the request to one event. @param key see EventRow. @param json what is read as JSON, see ReceivedRequest */
  one(exchange: Exchange, webhook: Webhook, body: Uint8Array, key: Uint8Array | null, json = body): EventRow {
    const receivedAtMs = this.#clampToPartitions(Date.now());
    const contentType = exchange.header('content-type');
    const id = uuidv7(receivedAtMs, this.#nextRandom(), webhook.cell);
    if (this.#onMade !== null) this.#onMade(exchange, webhook, id);
    return {
      id,
      webhookId: webhook.idBytes,
      receivedAtMs,
      sourceIp: exchange.client.inet,
      headers: this.#lines.encode(
        exchange.headers,
        webhook.scheme.headers,
        exchange.sentRequestId ? null : exchange.requestId,
      ),
      contentType: contentType === undefined ? null : printable(contentType),
      eventType: webhook.eventType === null ? null : webhook.eventType(exchange, json),
      body,
      orderKeys: webhook.orderKeys === null ? null : webhook.orderKeys(exchange, json),
      key,
      requestId: exchange.requestId,
    };
  }

  /** Converts each body to an event. All events have the same receive time, and their ids increase. @param keys of the bodies, or null. */
  many(
    exchange: Exchange,
    webhook: Webhook,
    bodies: readonly Uint8Array[],
    keys: readonly Uint8Array[] | null,
    contentType: string,
  ): EventRow[] {
    const first = this.one(exchange, webhook, bodies[0]!, null);
    const seed = Buffer.from(first.id.buffer, first.id.byteOffset, 16).readUInt32BE(12) & 0x7fffffff;
    const { eventType, orderKeys } = webhook;
    return bodies.map((body, i) => ({
      ...first,
      id: withLastWord(first.id, seed + i),
      contentType,
      eventType: eventType === null ? null : eventType(exchange, body),
      body,
      orderKeys: orderKeys === null ? null : orderKeys(exchange, body),
      key: keys === null ? null : keys[i]!,
    }));
  }
}

/**
 * The sender's id of the request: the value of the dedupe header (the first one if it was sent twice), or of the body where the
 * signature scheme says so. Null if it is absent or empty.
 */
export function dedupeValue(exchange: Exchange, webhook: Webhook, body: Uint8Array): string | null {
  if (webhook.dedupePath !== null) return readPointer(body, webhook.dedupePath) || null;
  return (webhook.dedupeHeader !== null && exchange.header(webhook.dedupeHeader)) || null;
}

/**
 * Key of a request that is one event; null: it has no id. Where signed batches are taken, it is that of the first line, so that a batch
 * which an unauthenticated client repeats at the other address is known.
 */
export function requestKey(exchange: Exchange, webhook: Webhook, body: Uint8Array): Uint8Array | null {
  const value = dedupeValue(exchange, webhook, body);
  if (value === null) return null;
  return webhook.scheme.definition.batch === true ? dedupeKey(value, 1) : dedupeKey(value);
}

/** Key of a value: its SHA-256, so that every key is 32 bytes. @param line number in a batch, from 1. */
export function dedupeKey(value: string, line?: number): Uint8Array {
  return sha256(line === undefined ? value : `${value}#${line}`);
}

/** RFC 9562, section 6.2, method 2: a random number incremented by one for each id of the same millisecond. */
function withLastWord(id: Uint8Array, word: number): Uint8Array {
  const next = Buffer.from(id);
  next.writeUInt32BE(word, 12);
  return next;
}

/** Returns a function that gives 16 random bytes per call. Draws 256 at a time: a generator call costs more than its bytes. */
export function randomSource(): () => Uint8Array {
  const pool = new Uint8Array(16 * 256);
  let at = pool.length;
  return () => {
    if (at === pool.length) {
      randomFillSync(pool);
      at = 0;
    }
    at += 16;
    return pool.slice(at - 16, at);
  };
}
