/**
 * Counts dead letters for the menu. The primary counts them only while a page is open and follows the stream: without this count, the
 * first page would have no number until then, and a page without a live part would never have one.
 */
import { keptFor } from '../../base/time/kept.ts';
import { within } from '../../base/time/within.ts';
import type { Database } from '../../store/connect/pool.ts';
import { countDeliveries } from '../../store/queries/deliveries/counts.ts';
import { PART_MS_MAX } from '../page.ts';
import { COUNT_MAX } from '../serve/frame.ts';

/** A count is kept for this long: live parts are requested every few seconds. */
const KEPT_MS = 5_000;

/** Returns a function that gives the dead letters, at most one more than the menu shows; 0 when they are not counted in time. */
export function deadCounter(database: Database): () => Promise<number> {
  const count = keptFor(KEPT_MS, () =>
    countDeliveries(database, {}, { waiting: 0, dead: COUNT_MAX + 1 }).then(
      ({ dead }) => dead,
      () => 0,
    ),
  );
  return async () => (await within(PART_MS_MAX, count(Date.now()))) ?? 0;
}
