/** The last steps of ingest.ts for a body that is one event: from the verified body to a row of `events` and the answer. See batch.ts too. */
import { randomFillSync } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { problem, problemLater } from '../../base/http/problem.ts';
import { Stage } from '../../base/telemetry/stages.ts';
import { answerBody } from '../../model/signatures/answer.ts';
import { readPointer } from '../../model/signatures/code-schemes.ts';
import { sha256 } from '../../model/signatures/keys.ts';
import { HeaderLines, printable } from '../../model/signatures/stored-headers.ts';
import type { EventRow } from '../../store/copy/rows.ts';
import { isoTime, uuidText, uuidv7, uuidv7Time } from '../../store/ids.ts';
import type { CellStores } from './cell-stores.ts';
import type { EventGroup, StoreOutcome } from './group-commit.ts';
import type { ReceivedRequest } from './signature.ts';
import type { Webhook } from './webhook.ts';

/** A request whose body is verified, and valid until `end`. */
export interface VerifiedRequest extends Pick<ReceivedRequest, 'exchange' | 'webhook' | 'body' | 'json'> {
  /** Answers after an error, and ends. */
  fail(error: unknown): void;
  /** Releases the body. Called once, after the answer. */
  end(): void;
}

/** Stores the events of a verified request and answers it, at once or in a later turn. */
export type Store = (request: VerifiedRequest) => void;

export interface StoreParts {
  rows: RowMaker;
  events: Pick<CellStores, 'store'>;
  /** Called when new events of the webhook were stored; not for duplicates. */
  onStored: (webhook: Webhook, receivedAtMs: number) => void;
}

/** Creates the store of POST /in/{webhook_id}: the body is one event. */
export function storeSingle(parts: StoreParts): Store {
  return (request) => {
    const { exchange, webhook, body, json } = request;
    const row = parts.rows.one(exchange, webhook, body, requestKey(exchange, webhook, json), json);
    parts.events.store(new SingleEvent(parts, request, row));
  };
}

/** The only event of a request, while it is stored. */
class SingleEvent implements EventGroup {
  readonly rows: readonly [EventRow];
  readonly cell: number;
  readonly #parts: StoreParts;
  readonly #request: VerifiedRequest;

  constructor(parts: StoreParts, request: VerifiedRequest, row: EventRow) {
    this.rows = [row];
    this.cell = request.webhook.cell;
    this.#parts = parts;
    this.#request = request;
  }

  report(outcome: StoreOutcome): void {
    try {
      this.#respond(outcome);
      this.#request.end();
    } catch (error) {
      this.#request.fail(error);
    }
  }

  #respond(outcome: StoreOutcome): void {
    const { exchange, webhook, body } = this.#request;
    exchange.clock.lap(Stage.commit);
    if (outcome.kind !== 'stored') return refuseStore(exchange, outcome);
    const existing = outcome.duplicates.get(0);
    if (existing !== undefined) {
      webhook.counter.touch().duplicates++;
      exchange.isDuplicate = true;
      return this.#answer(200, existing, uuidv7Time(existing), ',"duplicate":true');
    }
    const [row] = this.rows;
    const counts = webhook.counter.touch();
    counts.accepted++;
    counts.bytes += body.length;
    this.#parts.onStored(webhook, row.receivedAtMs);
    this.#answer(202, uuidText(row.id), isoTime(row.receivedAtMs), '');
  }

  /**
   * Answers with the text that the webhook sets, or with the default answer.
   * @param more further members. `bytes` is the size of this request's body; the stored event of a duplicate may have another size.
   */
  #answer(status: number, id: string, receivedAt: string, more: string): void {
    const { exchange, webhook, body, json } = this.#request;
    noteEvent(exchange, id);
    const { answer } = webhook;
    const own = answer === null ? null : answerBody(answer, json);
    if (own !== null) exchange.setHeader('content-security-policy', 'sandbox');
    exchange.answer(
      answer?.status ?? status,
      own === null ? 'application/json' : answer!.contentType,
      own ?? storedText(id, webhook.id, receivedAt, body.length, more),
    );
  }
}

/** The default answer. @param more further members */
export function storedText(id: string, webhookId: string, receivedAt: string, bytes: number, more: string): string {
  return `{"id":"${id}","webhook_id":"${webhookId}","received_at":"${receivedAt}","bytes":${bytes}${more}}`;
}

/** Answers a request whose events were not stored. */
export function refuseStore(exchange: Exchange, outcome: Exclude<StoreOutcome, { kind: 'stored' }>): void {
  if (outcome.kind === 'refused') exchange.problem(problem('row_refused'));
  else
    exchange.problem(
      problemLater(outcome.kind === 'queue_full' ? 'queue_full' : 'database_unavailable', outcome.retryAfterSeconds),
    );
}

/**
 * Puts the id of the stored event, or of the first event of a batch, into a header: the body of the answer may be a text that the webhook
 * sets, without the id.
 */
export function noteEvent(exchange: Exchange, id: string): void {
  exchange.eventId = id;
  exchange.setHeader('x-weir-event-id', id);
}

type OnMade = (exchange: Exchange, webhook: Webhook, id: Uint8Array) => void;

/** Converts verified requests to rows of `events`. */
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
    const row = this.#row(exchange, webhook, body, key, json);
    if (this.#onMade !== null) this.#onMade(exchange, webhook, row.id);
    return row;
  }

  #row(exchange: Exchange, webhook: Webhook, body: Uint8Array, key: Uint8Array | null, json: Uint8Array): EventRow {
    const receivedAtMs = this.#clampToPartitions(Date.now());
    const contentType = exchange.header('content-type');
    const id = uuidv7(receivedAtMs, this.#nextRandom(), webhook.cell);
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

  /** Converts each body to an event. All have the same receive time, and their ids increase. @param keys one for each body; null: none */
  many(
    exchange: Exchange,
    webhook: Webhook,
    bodies: readonly Uint8Array[],
    keys: readonly Uint8Array[] | null,
    contentType: string,
  ): EventRow[] {
    const first = this.#row(exchange, webhook, bodies[0]!, null, bodies[0]!);
    const seed = Buffer.from(first.id.buffer, first.id.byteOffset, 16).readUInt32BE(12) & 0x7fffffff;
    const { eventType, orderKeys } = webhook;
    const rows = bodies.map((body, i) => ({
      ...first,
      id: withLastWord(first.id, seed + i),
      contentType,
      eventType: eventType === null ? null : eventType(exchange, body),
      body,
      orderKeys: orderKeys === null ? null : orderKeys(exchange, body),
      key: keys === null ? null : keys[i]!,
    }));
    if (this.#onMade !== null) this.#onMade(exchange, webhook, rows[0]!.id);
    return rows;
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
 * Deduplication key of a request that is one event; null: the request has no id. Where the scheme signs batches, the key is that of a
 * batch's first line: a signed batch that a client replays as one event is then a duplicate.
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

/** Replaces the last 4 bytes of an id. RFC 9562, section 6.2, method 2: ids of one millisecond have consecutive numbers at their end. */
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
