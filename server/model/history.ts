/**
 * Requests to webhooks over time, as users see them: counts, the last event of each webhook, the size of its stored events, and a list of
 * all requests, accepted or not.
 */
import { z } from 'zod';
import { cellsAway } from './cells.ts';
import { problems } from './errors.ts';
import { inOrder, notInOrder } from './event-filter.ts';
import { idOf, instant, recordId, sourceIp, textOrNull, timeOf, timeOrNull, whole } from './fields.ts';

/** When a webhook last received something. */
export const webhookActivitySchema = z
  .object({
    webhook_id: idOf('webhook'),
    last_event_at: timeOrNull(
      'when the last event was received, with a delay of a few seconds, of up to 90 while thousands of webhooks have events, and of up to 6 minutes from 20,000 on; null: none yet',
    ),
    last_rejection_at: timeOrNull('when the newest stored rejection was received; null: none is stored'),
    events_removed_before: timeOrNull(
      'events received before this time were removed by retention_days of the webhook; null: none yet',
    ),
  })
  .meta({ id: 'WebhookActivity' });

/** Number and size of the stored events of a webhook. */
export const webhookUsageSchema = z
  .object({
    webhook_id: idOf('webhook'),
    name: z.string().describe('its display name'),
    events: z
      .number()
      .describe(
        'stored events, approximately: counted by hour, and undelivered ones that are kept longer are left out',
      ),
    bytes: z.number().describe('bytes of their bodies, as approximate; the disk holds headers and indexes too'),
    oldest_at: timeOrNull('hour of the oldest stored event; null: none is stored'),
  })
  .meta({ id: 'WebhookUsage' });

export const usageSchema = z.object({
  items: z.array(webhookUsageSchema).describe('most bytes first'),
  tables: z
    .object({
      events: z.number().describe('bytes on disk of all events, with indexes'),
      deliveries: z.number().describe('bytes on disk of all deliveries, with indexes'),
    })
    .describe('the two large tables, of all webhooks together'),
});

/** Members that are counted, in the order of the columns. */
const historyCounts = {
  accepted: whole.describe('events stored'),
  duplicates: whole.describe('events that were stored before (see dedupe_header)'),
  rejected: whole.describe('requests refused for their signature'),
  limited: whole.describe('requests refused by the rate limit'),
  disabled: whole.describe('requests refused because the webhook is disabled (410)'),
  length_required: whole.describe('requests refused because they had no Content-Length (411)'),
  too_large: whole.describe('requests refused because their body is too large (413)'),
  unavailable: whole.describe('requests refused because they could not be stored or checked (503)'),
  bytes: whole.describe('bytes of the bodies of accepted events'),
  by_previous: whole.describe('requests that the previous secret verified, in the overlap of a rotation'),
};
export type HistoryCounts = { [Name in keyof typeof historyCounts]: number };

/** Statuses by which refusals are counted. Refusals by signature and by rate limit are counted where they are decided. */
export const statusOfRefusal = { disabled: 410, length_required: 411, too_large: 413, unavailable: 503 } as const;

/** Counts of 0. */
export function noCounts(): HistoryCounts {
  return Object.fromEntries(historyColumns.map((name) => [name, 0])) as HistoryCounts;
}

export const historyColumns = Object.keys(historyCounts) as (keyof HistoryCounts)[];

export const QUARTER_SECONDS = 900;
/** Quarters of an hour that are shown: 24 hours. */
export const QUARTERS_SHOWN = 96;

/** Start of the first quarter of an hour that is shown; the last one is the running one. Unix milliseconds. */
export function quartersSince(nowMs: number): number {
  return quarterOf(nowMs) - (QUARTERS_SHOWN - 1) * QUARTER_SECONDS * 1_000;
}

/** Start of the quarter of an hour of a time, Unix milliseconds. */
export function quarterOf(ms: number): number {
  const quarterMs = QUARTER_SECONDS * 1_000;
  return Math.floor(ms / quarterMs) * quarterMs;
}

/** How long spans of a minute and of a quarter of an hour are kept; spans of an hour: HOURS_KEPT_DAYS. */
export const MINUTES_KEPT_HOURS = 48;
export const HOURS_KEPT_DAYS = 400;
export const HISTORY_POINTS_MAX = 1_500;

/** Seconds between two points. */
export const historySteps = [60, 300, 900, 1_800, 3_600, 21_600, 86_400] as const;

export const historySchema = z.object({
  from: timeOf('start of the first point'),
  to: timeOf('end of the last point'),
  step: whole.describe('seconds from one point to the next'),
  points: z
    .array(z.object({ at: timeOf('start of the point'), ...historyCounts }))
    .describe(
      'oldest first, without gaps; the counts of the last seconds are not yet included, those of the last 90 while thousands of webhooks have events, and those of the last 6 minutes from 20,000 on, whose minutes then hold refused requests alone',
    ),
});

const webhookQuarterSchema = z.object({
  at: timeOf('start of the quarter of an hour'),
  accepted: whole.describe('requests answered with success'),
  rejected: whole.describe('requests refused for their signature'),
  limited: historyCounts.limited,
  refused: whole.describe('requests refused for another reason'),
});
export type WebhookQuarter = z.output<typeof webhookQuarterSchema>;

export const webhookHistorySchema = z.object({
  webhook_id: recordId.describe('the webhook'),
  name: z.string().describe('its name'),
  enabled: z.boolean().describe('false: requests are answered 410'),
  last_event_at: timeOf(
    'when it last received an event, to a few seconds, to 90 while thousands of webhooks have events, and to 6 minutes from 20,000 on',
  )
    .nullable()
    .describe('null: never'),
  ...historyCounts,
  hours: z.array(whole).describe('accepted events of each of the last 24 hours, oldest first'),
  week_ago: whole.describe('requests of any kind in this hour of the day a week ago'),
  quarters: z
    .array(webhookQuarterSchema)
    .optional()
    .describe('with `quarters=true`: each quarter of an hour of the last 24 hours with requests, oldest first'),
});

const requestSchema = z
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

/** The query of the list of requests. @param page limit and cursor */
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
/** Fixes that differ from the detail of the problem. Null: nothing to fix. */
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

/** What to do about a sampled request with this reason; null: nothing. */
export function fixOfReason(reason: string): string | null {
  if (Object.hasOwn(fixes, reason)) return fixes[reason]!;
  return Object.hasOwn(problems, reason) ? problems[reason as keyof typeof problems].detail : null;
}
