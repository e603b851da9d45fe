/** What single.ts and batch.ts have in common: the last steps of ingest.ts, from a verified body to its answer. */
import type { Exchange } from '../http/exchange.ts';
import type { DedupeWriter } from './dedupe.ts';
import type { EventWriter, PersistOutcome } from './persist.ts';
import type { RowMaker } from './rows.ts';
import type { Webhook } from './webhook.ts';

/** Stores a verified body and answers. The bytes are held until it resolves. */
export type Store = (exchange: Exchange, webhook: Webhook, body: Uint8Array<SharedArrayBuffer>) => Promise<void>;

export interface StoreParts {
  rows: RowMaker;
  writer: EventWriter;
  /** For requests that carry their webhook's dedupe_header. */
  dedupeWriter: DedupeWriter;
  /** An event of the webhook was stored that had not been there. */
  onStored: (webhook: Webhook, receivedAtMs: number) => void;
}

/** Answers what could not be stored. */
export function refuseStore(exchange: Exchange, outcome: Exclude<PersistOutcome, { kind: 'committed' }>): void {
  if (outcome.kind === 'refused') exchange.problem('row_refused');
  else
    exchange.problemLater(
      outcome.kind === 'queue_full' ? 'queue_full' : 'database_unavailable',
      outcome.retryAfterSeconds,
    );
}
