/** The event store, awaited. */

import type { EventStore } from '../../server/receive/ingest/cell-stores.ts';
import type { StoreOutcome } from '../../server/receive/ingest/group-commit.ts';
import type { EventRow } from '../../server/store/copy/rows.ts';

/** Stores the events of one request; resolves with the outcome. */
export function storeEvents(events: EventStore, rows: EventRow[]) {
  return new Promise<StoreOutcome>((report) => events.store({ rows, report }));
}
