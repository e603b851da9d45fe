/** History as users see it: counts of requests over time. */
import { z } from 'zod';
import { recordId, timeOf } from './fields.ts';

const whole = z.number().int().min(0);

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

/** Status of the refusals that are counted by it. Those of signatures and rate limits are counted where they are decided. */
export const statusOfRefusal = { disabled: 410, length_required: 411, too_large: 413, unavailable: 503 } as const;

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
