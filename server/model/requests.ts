/** Requests to a webhook, accepted or not, as one list. */
import { z } from 'zod';
import { cellsAway } from './cells.ts';
import { problems } from './errors.ts';
import { inOrder, notInOrder } from './event-filter.ts';
import { idOf, instant, sourceIp, textOrNull, timeOf } from './fields.ts';
import { historySchema } from './history.ts';

export const requestSchema = z
  .object({
    id: z.guid().describe('id of the event, of the rejection or of the sample'),
    status: z
      .int()
      .describe('status of the answer; of accepted and rejected requests, as the webhook answers them now'),
    at: timeOf('when the request was received'),
    client: sourceIp,
    bytes: z.int().nullable().describe('size of the body in bytes; null: not known'),
    reason: textOrNull(
      'null: accepted; duplicate: it repeats a stored event; of a refused signature the reason of its rejection; otherwise the code of the problem',
    ),
    fix: textOrNull('what to do about a refusal; null: nothing'),
    event_id: idOf('event').optional().describe('the stored event; absent: none'),
    rejection_id: idOf('rejection').optional().describe('the rejection of a refused signature; absent: none'),
  })
  .meta({ id: 'WebhookRequest' });
export type WebhookRequest = z.output<typeof requestSchema>;

export const requestsSchema = z.object({
  items: z
    .array(requestSchema)
    .describe('newest first: all accepted requests, and samples of the others, at least one a minute of each reason'),
  next_cursor: textOrNull('cursor of the next page; null: this is the last page'),
  step: historySchema.shape.step,
  counts: historySchema.shape.points.describe(
    'exact numbers of requests from `from` to `to`, by default of the last hour, oldest first: by minute, by quarter of an hour over more than a day or from 20,000 active webhooks on, and by hour or day before the last two days',
  ),
  cells_away: cellsAway,
});

/** @param page limit and cursor */
export const requestsQuery = <Page extends z.ZodRawShape>(page: Page) =>
  z
    .strictObject({
      ...page,
      status: z.coerce.number().int().min(200).max(599).optional().describe('only requests with this answer'),
      from: instant.optional().describe('received at this time or later; UTC if it has no time zone'),
      to: instant.optional().describe('received before this time'),
    })
    .refine((query) => inOrder(query as Parameters<typeof inOrder>[0]), notInOrder);

const SPOOL = 'Set INGEST_SPOOL_DIR to keep events while they cannot be stored.';
/** What to do, where it is not what the problem says. */
const fixes: Readonly<Record<string, string | null>> = {
  duplicate: null,
  webhook_disabled: 'Enable the webhook, or have the sender stop.',
  length_required: 'The sender sends chunked bodies: set CHUNKED_BODIES=accept.',
  payload_too_large:
    'Raise the payload limit of the webhook or WEBHOOK_MAX_PAYLOAD_BYTES, or have the sender send less.',
  rate_limited: 'Raise the rate limit of the webhook if the requests are wanted.',
  database_unavailable: SPOOL,
  queue_full: SPOOL,
};

/** What to do about a request with this reason of a sample. */
export function fixOfReason(reason: string): string | null {
  if (Object.hasOwn(fixes, reason)) return fixes[reason]!;
  return Object.hasOwn(problems, reason) ? problems[reason as keyof typeof problems].detail : null;
}
