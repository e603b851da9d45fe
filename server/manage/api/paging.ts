/** Keyset pagination of lists: newest first; the cursor is the id of the last row of a page. */
import { z } from 'zod';
import { invalidQuery } from '../../base/http/issues.ts';
import type { Problem } from '../../base/http/problem.ts';
import { cellsAway } from '../../model/cells.ts';
import { recordId } from '../../model/fields.ts';
import type { Query } from '../../store/connect/pool.ts';
import { isTimedId, uuidv7Time } from '../../store/ids.ts';
import { cursorExists, type PagedTable } from '../../store/queries/names.ts';

/** Id of an event, delivery or rejection, which contains its time. */
export const eventId = z
  .guid({ error: 'Give an id of Weir, such as 01a1ffb5-5d09-7a0f-8647-f39e08b2fc0a.', abort: true })
  .refine(isTimedId, 'This is not an id of Weir.');

/** The parameter `limit`. @param usual its default @param of what is limited, in words */
export function limitUpTo(max: number, usual: number, of: string) {
  return z.coerce.number().int().min(1).max(max).default(usual).describe(`${of}, 1 to ${max}`);
}

const limit = limitUpTo(200, 50, 'maximum items of a page');
export const cursorText = 'next_cursor of the previous page; absent: the first page';

/** Parameters of every list of events or deliveries. */
export const pageQuery = { limit, cursor: eventId.optional().describe(cursorText) };

/** Parameters of every list of configured resources. */
export const recordPageQuery = { limit, cursor: recordId.optional().describe(cursorText) };

/** A parameter with several values, separated by commas. */
export function listUpTo<Item extends z.ZodType<unknown, string>>(max: number, item: Item) {
  return z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(item).max(max));
}

/**
 * A parameter with several ids of configured resources.
 * @param otherwise which resources are selected without the parameter
 */
export function idList(max: number, otherwise: string) {
  const meaning = `ids separated by commas, at most ${max}; absent: the newest ${max} ${otherwise}`;
  return listUpTo(max, recordId).describe(meaning);
}

/** A parameter that is true or false; absent: both. */
export const flag = z.enum(['true', 'false']);

/** Value of a flag; null: not given. */
export function flagValue(given: z.output<typeof flag> | undefined): boolean | null {
  return given === undefined ? null : given === 'true';
}

/**
 * Returns a page of a list.
 * @param rows one more than `limit` if there is a next page
 * @param describe default: a row is an item as it is
 * @param cursorOf cursor of the page after this row; default: its id, for lists ordered by id
 */
export function pageOf<Row extends { id: string }, Item = Row>(
  rows: readonly Row[],
  limit: number,
  describe: (row: Row) => Item = (row) => row as unknown as Item,
  cursorOf: (row: Row) => string = ({ id }) => id,
): { items: Item[]; next_cursor: string | null } {
  const page = rows.slice(0, limit);
  return { items: page.map(describe), next_cursor: rows.length > limit ? cursorOf(page.at(-1)!) : null };
}

/** The page of a search. @param stoppedAt where its time limit ended it; null: it is complete */
export function searchedPageOf<Row extends { id: string }, Item = Row>(
  { rows, stoppedAt }: { rows: readonly Row[]; stoppedAt: string | null },
  limit: number,
  describe?: (row: Row) => Item,
) {
  const page = pageOf(rows, limit, describe);
  const end = page.next_cursor === null ? stoppedAt : null;
  const searched_to = end && uuidv7Time(end);
  return { items: page.items, next_cursor: page.next_cursor ?? end, complete: end === null, searched_to };
}

const CURSOR_DELETED = 'The item that this cursor names was deleted. Start at the first page.';

/**
 * Returns the problem of a page whose cursor names a deleted row: the page is empty although older rows may exist. Null: no problem.
 * @param rows the page
 */
export async function cursorProblem(
  database: { query: Query },
  table: PagedTable,
  cursor: string | undefined,
  rows: readonly unknown[],
): Promise<Problem | null> {
  if (cursor === undefined || rows.length > 0 || (await cursorExists(database, table, cursor))) return null;
  return invalidQuery({ issues: [{ path: ['cursor'], detail: CURSOR_DELETED }], omitted: 0 });
}

/** Response schema of a list without pages. */
export function listSchema<Item extends z.ZodType>(item: Item) {
  return z.object({ items: z.array(item).describe('all items') });
}

/** Response schema of a page of a list. */
export function pageSchema<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item).describe('the items of this page'),
    next_cursor: z.string().nullable().describe('cursor of the next page; null: this is the last page'),
  });
}

/** Response schema of a page of a list that may be searched with a time limit. */
export function searchedPageSchema<Item extends z.ZodType>(item: Item) {
  return pageSchema(item).extend({
    complete: z
      .boolean()
      .describe('false: the search reached its time limit before the page was full; next_cursor continues from there'),
    searched_to: z.iso.datetime().nullable().describe('time down to which an incomplete search looked'),
    cells_away: cellsAway,
  });
}
