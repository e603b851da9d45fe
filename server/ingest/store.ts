/** The last steps of ingest.ts, from a verified body to its answer. Here for a body that is one event, in batch.ts for lines. */
import { uuidText, uuidv7Time } from '../db/ids.ts';
import type { Exchange } from '../http/exchange.ts';
import { problem, problemLater } from '../http/problem.ts';
import { Stage } from '../telemetry/stages.ts';
import type { EventStore } from './event-store.ts';
import type { StoreOutcome } from './group-commit.ts';
import { dedupeKey, dedupeValue, type RowMaker } from './rows.ts';
import type { Webhook } from './webhook.ts';

/** Stores a verified body and answers the request. The body is held until the promise resolves. */
export type Store = (exchange: Exchange, webhook: Webhook, body: Uint8Array<SharedArrayBuffer>) => Promise<void>;

export interface StoreParts {
  rows: RowMaker;
  events: Pick<EventStore, 'store'>;
  /** Called when new events of the webhook were stored; not for duplicates. */
  onStored: (webhook: Webhook, receivedAtMs: number) => void;
}

/** Creates the store of POST /in/{webhook_id}: the body is one event. */
export function storeSingle({ rows, events, onStored }: StoreParts): Store {
  return async (exchange, webhook, body) => {
    const value = dedupeValue(exchange, webhook, body);
    const row = rows.one(exchange, webhook, body);
    const outcome = await events.store([row], value === null ? undefined : [dedupeKey(value)]);
    exchange.lap(Stage.commit);
    if (outcome.kind !== 'stored') return refuseStore(exchange, outcome);
    const existing = outcome.duplicates.get(0);
    if (existing !== undefined) {
      webhook.counts.duplicates++;
      return answer(exchange, 200, webhook, existing, body.length, ',"duplicate":true');
    }
    webhook.counts.accepted++;
    webhook.counts.bytes += body.length;
    onStored(webhook, row.receivedAtMs);
    answer(exchange, 202, webhook, uuidText(row.id), body.length, '');
  };
}

/** Answers a request whose events were not stored. */
export function refuseStore(exchange: Exchange, outcome: Exclude<StoreOutcome, { kind: 'stored' }>): void {
  if (outcome.kind === 'refused') exchange.problem(problem('row_refused'));
  else
    exchange.problem(
      problemLater(outcome.kind === 'queue_full' ? 'queue_full' : 'database_unavailable', outcome.retryAfterSeconds),
    );
}

/** @param bodyBytes of this request; the stored event of a duplicate may have another size. */
function answer(exchange: Exchange, status: number, webhook: Webhook, id: string, bodyBytes: number, more: string) {
  exchange.eventId = id;
  const receivedAt = uuidv7Time(id);
  exchange.answer(
    status,
    'application/json',
    `{"id":"${id}","webhook_id":"${webhook.id}","received_at":"${receivedAt}","bytes":${bodyBytes}${more}}`,
  );
}
