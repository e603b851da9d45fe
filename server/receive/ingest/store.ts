/** The last steps of ingest.ts, from a verified body to its answer. This file stores a body that is one event; batch.ts stores lines. */

import type { Exchange } from '../../base/http/exchange.ts';
import { problem, problemLater } from '../../base/http/problem.ts';
import { Stage } from '../../base/telemetry/stages.ts';
import { answerBody } from '../../model/signatures/answer.ts';
import type { EventRow } from '../../store/copy/rows.ts';
import { isoTime, uuidText, uuidv7Time } from '../../store/ids.ts';
import type { CellStores } from './cell-stores.ts';
import type { EventGroup } from './event-store.ts';
import type { StoreOutcome } from './group-commit.ts';
import { type RowMaker, requestKey } from './rows.ts';
import type { Webhook } from './webhook.ts';

/** A request whose body is verified. */
export interface VerifiedRequest {
  readonly exchange: Exchange;
  readonly webhook: Webhook;
  /** Valid until `end`. */
  readonly body: Uint8Array<SharedArrayBuffer>;
  /** See ReceivedRequest. */
  readonly json: Uint8Array;
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

  settle(outcome: StoreOutcome): void {
    try {
      this.#respond(outcome);
      this.#request.end();
    } catch (error) {
      this.#request.fail(error);
    }
  }

  #respond(outcome: StoreOutcome): void {
    const { exchange, webhook, body } = this.#request;
    exchange.lap(Stage.commit);
    if (outcome.kind !== 'stored') return refuseStore(exchange, outcome);
    const existing = outcome.duplicates.get(0);
    if (existing !== undefined) {
      webhook.counts.duplicates++;
      return this.#answer(200, existing, uuidv7Time(existing), ',"duplicate":true');
    }
    const [row] = this.rows;
    webhook.counts.accepted++;
    webhook.counts.bytes += body.length;
    this.#parts.onStored(webhook, row.receivedAtMs);
    this.#answer(202, uuidText(row.id), isoTime(row.receivedAtMs), '');
  }

  /**
   * Answers as the webhook says, else with the default.
   * @param more further members. The size is that of this request's body; the stored event of a duplicate may have another one.
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

/** Names the stored event, or the first one of a batch, in the answer: its body may be the sender's. */
export function noteEvent(exchange: Exchange, id: string): void {
  exchange.eventId = id;
  exchange.setHeader('x-weir-event-id', id);
}
