/** Keyset paging of lists: newest first, and the id of the last row is where the next page begins. */
import { z } from 'zod';
import { isTimedId } from '../db/ids.ts';
import { recordId } from './input.ts';

/** An id of an event or a delivery, which holds its time. */
export const eventId = z
  .guid({ error: 'Give an id of Weir, such as 01a1ffb5-5d09-7a0f-8647-f39e08b2fc0a.', abort: true })
  .refine(isTimedId, 'This is no id of Weir.');

const limit = z.coerce.number().int().min(1).max(200).default(50).describe('items of a page, 1 to 200');
export const cursorText = 'next_cursor of the page before; absent: the first page';

/** Parameters that every list of events or deliveries takes. */
export const pageQuery = { limit, cursor: eventId.optional().describe(cursorText) };

/** Parameters that every list of what is configured takes. */
export const recordPageQuery = { limit, cursor: recordId.optional().describe(cursorText) };

/**
 * A parameter that names several of what is configured.
 * @param otherwise which so many are meant without it.
 */
export function idList(max: number, otherwise: string) {
  return z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(recordId).max(max))
    .describe(`ids joined by commas, at most ${max}; without them so many ${otherwise}, newest first`);
}

/** A parameter that is true or false. */
export const flag = z.enum(['true', 'false']);

/** What a flag says; null: it was not given. */
export function flagValue(given: z.output<typeof flag> | undefined): boolean | null {
  return given === undefined ? null : given === 'true';
}

/**
 * @param rows one more than `limit` where there is a next page.
 * @param cursorOf where the page after this row begins; its id, unless the list is in another order.
 */
export function pageOf<Row extends { id: string }>(
  rows: readonly Row[],
  limit: number,
  describe: (row: Row) => object,
  cursorOf: (row: Row) => string = ({ id }) => id,
): { items: object[]; next_cursor: string | null } {
  const page = rows.slice(0, limit);
  return { items: page.map(describe), next_cursor: rows.length > limit ? cursorOf(page.at(-1)!) : null };
}

/** The answer of a list that is not paged. */
export function listSchema<Item extends z.ZodType>(item: Item) {
  return z.object({ items: z.array(item).describe('all of them') });
}

/** The answer of a list. */
export function pageSchema<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item).describe('the items of this page'),
    next_cursor: z.string().nullable().describe('the parameter cursor of the next page; null: this was the last'),
  });
}
