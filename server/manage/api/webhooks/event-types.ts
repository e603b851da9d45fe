/** GET /api/v1/webhooks/{id}/event-types: the types of a webhook's events of the last seven days, with their numbers. */

import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import { DAY_MS } from '../../../base/time/durations.ts';
import { cellsAway } from '../../../model/cells.ts';
import { eventTypeSchema } from '../../../model/events.ts';
import { recordId } from '../../../model/fields.ts';
import { PartialReads } from '../../../store/cells/partial-reads.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { countEventTypes, TYPED_EVENTS_MAX } from '../../../store/queries/events/types.ts';
import { findWebhook } from '../../../store/queries/webhooks/webhooks.ts';
import { done, operation } from '../operation.ts';

const SPAN_MS = 7 * DAY_MS;

const typesSchema = z.object({
  items: z.array(eventTypeSchema).describe('the most frequent type first, at most 100'),
  complete: z.boolean().describe(`false: only the newest ${TYPED_EVENTS_MAX} events are counted`),
  since: z.iso.datetime().describe('events received at this time or later are counted'),
  cells_away: cellsAway,
});

export function listEventTypes(database: Database) {
  return operation({
    id: { schema: recordId, problem: 'webhook_unknown' },
    answers: { 200: typesSchema },
    handle: async ({ id }) => {
      if ((await findWebhook(database.query, id)) === undefined) return problem('webhook_unknown');
      const from = new Date(Date.now() - SPAN_MS).toISOString();
      const reads = new PartialReads(database);
      const { items, counted, since } = await countEventTypes(reads, id, from);
      const complete = counted < TYPED_EVENTS_MAX;
      return done(200, { items, complete, since: complete ? from : since!, cells_away: reads.cellsAway });
    },
  });
}
