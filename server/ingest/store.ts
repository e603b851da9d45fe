/** Common part of single.ts and batch.ts: the last steps of ingest.ts, from a verified body to its answer. */
import type { Exchange } from '../http/exchange.ts';
import type { DedupeWriter } from './dedupe.ts';
import type { EventWriter, PersistOutcome } from './persist.ts';
import type { RowMaker } from './rows.ts';
import type { Webhook } from './webhook.ts';

/** Stores a verified body and answers the request. The body is held until the promise resolves. */
export type Store = (exchange: Exchange, webhook: Webhook, body: Uint8Array<SharedArrayBuffer>) => Promise<void>;

export interface StoreParts {
  rows: RowMaker;
  writer: EventWriter;
  /** For requests with the webhook's dedupe_header. */
  dedupeWriter: DedupeWriter;
  /** Called when new events of the webhook were stored; not for duplicates. */
  onStored: (webhook: Webhook, receivedAtMs: number) => void;
}

/** Answers a request whose events were not stored. */
export function refuseStore(exchange: Exchange, outcome: Exclude<PersistOutcome, { kind: 'committed' }>): void {
  if (outcome.kind === 'refused') exchange.problem('row_refused');
  else
    exchange.problemLater(
      outcome.kind === 'queue_full' ? 'queue_full' : 'database_unavailable',
      outcome.retryAfterSeconds,
    );
}
