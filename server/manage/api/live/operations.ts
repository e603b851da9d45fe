/** /api/v1/counters and /api/v1/stream: live counters and events. */
import { z } from 'zod';
import { isTimedId } from '../../../store/ids.ts';
import type { History } from '../../live/counters.ts';
import { liveSchema, secondSchema } from '../../live/counters.ts';
import { CONTENT_TYPE, type Streams } from '../../live/streams.ts';
import { done, operation } from '../operation.ts';
import { eventId } from '../paging.ts';

const countersSchema = z.object({
  latest: liveSchema.nullable().describe('null in the first second after the start'),
  history: z.array(secondSchema).describe('up to five minutes, oldest first'),
});

const streamQuery = z.strictObject({
  webhook_id: z.guid().toLowerCase().optional().describe('only events of this webhook'),
  after: eventId
    .optional()
    .describe(
      'id of the newest event that the client has; the header Last-Event-ID takes precedence. Events of the 15 s before it are sent again.',
    ),
});

export function liveOperations({ history, streams }: { history: History; streams: Streams }) {
  return {
    showCounters: operation({
      answers: { 200: countersSchema },
      handle: async () => done(200, { latest: history.latest, history: [...history.seconds] }),
    }),

    stream: operation({
      query: streamQuery,
      answers: { 200: null },
      bytes: { contentTypes: [CONTENT_TYPE] },
      problems: ['streams_full', 'user_streams_full'],
      handle: async ({ who, query, exchange }) => {
        const lastEventId = exchange.header('last-event-id');
        const after = lastEventId !== undefined && isTimedId(lastEventId) ? lastEventId.toLowerCase() : query.after;
        return streams.open(exchange, who, { webhookId: query.webhook_id ?? null, after: after ?? null });
      },
    }),
  };
}
