/** The event store, awaited. */
import type { EventRow } from '../../server/db/copy-rows.ts';
import type { EventStore } from '../../server/ingest/event-store.ts';
import type { StoreOutcome } from '../../server/ingest/group-commit.ts';

/** Stores the events of one request; resolves with the outcome. */
export function storeEvents(events: EventStore, rows: EventRow[]) {
  return new Promise<StoreOutcome>((settle) => events.store({ rows, settle }));
}
