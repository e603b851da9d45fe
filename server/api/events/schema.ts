/** Output schemas of events. */
import { z } from 'zod';
import type { EventRecord } from '../../db/queries/events.ts';
import { eventSchema } from '../../resources/events.ts';
import { readStoredHeaders } from '../../signatures/stored-headers.ts';
import { pageSchema } from '../paging.ts';

export const eventPageSchema = pageSchema(eventSchema).extend({
  complete: z
    .boolean()
    .describe('false: the search reached its time limit before the page was full; next_cursor continues from there'),
  searched_to: z.iso.datetime().nullable().describe('time down to which an incomplete search looked'),
});

/** The event as the API returns it, without its body. */
export function describeEvent({ headers, ...event }: EventRecord): z.output<typeof eventSchema> {
  return eventSchema.parse({ ...event, headers: readStoredHeaders(headers.toString('utf8')) });
}
