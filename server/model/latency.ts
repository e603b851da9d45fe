/** Latency: how long events take from receipt to each stage, kept as histograms. */
import { z } from 'zod';
import { recordId } from './fields.ts';

/** Stages that are timed, by the number with which they are stored. `retried` is counted, not timed. */
export const latencyStages = ['stored', 'claimed', 'acknowledged'] as const;
export type LatencyStage = (typeof latencyStages)[number];
export const RETRIED = latencyStages.length;

/** Buckets of a histogram. Each is a fifth longer than the previous bucket (by the fourth root of 2); the last begins at 35 days. */
export const BUCKETS = 128;
const BUCKETS_PER_DOUBLING = 4;

/** Days of a span, and the seconds of the rows that it is read from. A span of days ends with today (UTC). */
export const latencySpans = { 1: 3_600, 7: 86_400, 30: 86_400 } as const;
export type LatencyDays = keyof typeof latencySpans;
/** How long rows of an hour and of a day are kept. */
export const LATENCY_HOURS_KEPT = 48;
export const LATENCY_DAYS_KEPT = 31;
/** Webhooks, and agents, in one result. */
export const LATENCY_SUBJECTS_MAX = 200;

/** The bucket of a time. 0: below a millisecond. */
export function bucketOf(ms: number): number {
  return ms < 1 ? 0 : Math.min(BUCKETS - 1, 1 + Math.floor(BUCKETS_PER_DOUBLING * Math.log2(ms)));
}

/** Shortest time in a bucket after the first, milliseconds. */
function startOf(bucket: number): number {
  return 2 ** ((bucket - 1) / BUCKETS_PER_DOUBLING);
}

/**
 * A quantile in milliseconds, at most a fifth off: within its bucket, times are taken as spread evenly.
 * @param counts times in each bucket
 * @param share 0.5: the median
 */
export function quantileOf(counts: ReadonlyMap<number, number>, share: number): number {
  const sorted = [...counts].sort(([one], [other]) => one - other);
  let left = share * sorted.reduce((sum, [, count]) => sum + count, 0);
  for (const [bucket, count] of sorted) {
    if (left <= count) {
      const [from, to] = [bucket === 0 ? 0 : startOf(bucket), startOf(bucket + 1)];
      return Math.round(10 * (from + ((to - from) * left) / count)) / 10;
    }
    left -= count;
  }
  throw new RangeError('a histogram without counts has no quantiles');
}

const milliseconds = z.number().min(0);
const latencySchema = z
  .object({
    count: z.number().int().min(1).describe('how many were timed'),
    p50_ms: milliseconds.describe('half of them took at most so many milliseconds, to a fifth'),
    p95_ms: milliseconds.describe('95 % of them took at most so many milliseconds, to a fifth'),
  })
  .nullable();

export const latencyItemSchema = z.object({
  kind: z.enum(['webhook', 'agent']).describe('what the latency is of'),
  id: recordId.describe('the webhook or the agent'),
  name: z.string().describe('its name'),
  stored: latencySchema.describe('from the receipt of a request to its commit; null for an agent'),
  claimed: latencySchema.describe('from the receipt of an event to its first claim'),
  acknowledged: latencySchema.describe(
    'from the receipt of an event to its acknowledgement, without replayed deliveries',
  ),
  retries: z.number().int().min(0).describe('claims of deliveries whose attempt before had failed'),
});
export type LatencyItem = z.output<typeof latencyItemSchema>;
