/** The last steps of ingest.ts, from a verified body to its answer. This file stores a body that is one event; batch.ts stores lines. */

import type { Exchange } from '../../base/http/exchange.ts';
import { problem, problemLater } from '../../base/http/problem.ts';
import { Stage } from '../../base/telemetry/stages.ts';
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
    const { exchange, webhook, body } = request;
    const row = parts.rows.one(exchange, webhook, body, requestKey(exchange, webhook, body));
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
      return answer(exchange, 200, webhook, existing, uuidv7Time(existing), `${body.length},"duplicate":true`);
    }
    const [row] = this.rows;
    webhook.counts.accepted++;
    webhook.counts.bytes += body.length;
    this.#parts.onStored(webhook, row.receivedAtMs);
    answer(exchange, 202, webhook, uuidText(row.id), isoTime(row.receivedAtMs), `${body.length}`);
  }
}

/** Answers a request whose events were not stored. */
export function refuseStore(exchange: Exchange, outcome: Exclude<StoreOutcome, { kind: 'stored' }>): void {
  if (outcome.kind === 'refused') exchange.problem(problem('row_refused'));
  else
    exchange.problem(
      problemLater(outcome.kind === 'queue_full' ? 'queue_full' : 'database_unavailable', outcome.retryAfterSeconds),
    );
}

/** @param bytes size of this request's body, with further members; the stored event of a duplicate may have another size. */
function answer(exchange: Exchange, status: number, webhook: Webhook, id: string, receivedAt: string, bytes: string) {
  exchange.eventId = id;
  exchange.answer(
    status,
    'application/json',
    `{"id":"${id}","webhook_id":"${webhook.id}","received_at":"${receivedAt}","bytes":${bytes}}`,
  );
}
