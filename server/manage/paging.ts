/** Keyset paging of lists: newest first, and the id of the last row is where the next page begins. */
import { z } from 'zod';
import { uuidv7Milliseconds } from '../core/ids.ts';

/** Times past this are no times that Weir ever gave, and Postgres does not read them as JavaScript writes them. */
const YEAR_10000_MS = 253_402_300_800_000;

/** An id of an event or a delivery, which holds its time. */
export const eventId = z.guid().refine((id) => uuidv7Milliseconds(id) < YEAR_10000_MS);

/** Parameters that every list takes. */
export const pageQuery = {
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: eventId.optional(),
};

/** @param rows one more than `limit` where there is a next page. */
export function pageOf<Row extends { id: string }>(
  rows: readonly Row[],
  limit: number,
  describe: (row: Row) => object,
): { items: object[]; next_cursor: string | null } {
  const page = rows.slice(0, limit);
  return { items: page.map(describe), next_cursor: rows.length > limit ? page.at(-1)!.id : null };
}
