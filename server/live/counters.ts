/** Live counters, as processes report them to the primary and the primary sends them to all viewers. */
import { z } from 'zod';
import { timeOf } from '../http/members.ts';

const whole = z.number().int().min(0);

/** Counts of one process since its start, or of all processes since the start of the primary. They only increase. */
const totalsSchema = z.object({
  accepted: whole.describe('events stored'),
  rejected: whole.describe('webhooks refused for their signature: 403'),
  limited: whole.describe('webhooks refused by the rate limit: 429'),
  refused: whole.describe('webhooks refused for another fault of their sender: other 4xx'),
  failed: whole.describe('webhooks refused though nothing was wrong with them: 5xx'),
  requests: whole.describe('answers of any route'),
});

const gauges = {
  queue_events: whole.describe('events that wait for their commit'),
  verify_queue_requests: whole.describe('requests that wait for an HMAC thread'),
  connections: whole.describe('open connections of clients'),
  open_requests: whole.describe('requests that are not answered yet'),
  streams: whole.describe('clients of GET /api/v1/stream'),
  resident_bytes: whole.describe('memory in use (RSS)'),
  event_loop_lag_ms: z.number().describe('99th percentile of how late the event loop was'),
};

/** One second, summed over all processes of this machine. */
export const secondSchema = z.object({
  at: z.iso.datetime().describe('its end'),
  duration_ms: whole.describe('about 1000; rates are counts over this time'),
  ...totalsSchema.shape,
  commits: whole.describe('group commits'),
  commit_p50_ms: z
    .number()
    .nullable()
    .describe('median duration of a commit, estimated from a histogram; null without a commit'),
  commit_p99_ms: z.number().nullable().describe('likewise, the 99th percentile'),
  ...gauges,
});

export const processSchema = z.object({
  pid: whole.describe('process id'),
  started_at: timeOf('when the process started'),
  state: z
    .enum(['serving', 'leaving', 'silent'])
    .describe('leaving: it answers what it accepted, and ends; silent: the primary has not heard from it for 3 s'),
  database: z.enum(['up', 'down']).describe('its connection for commits'),
  rate_limit_store: z.enum(['ok', 'degraded']).describe('degraded: requests pass uncounted'),
  threads: whole.describe('HMAC threads that are up'),
  accepted: whole.describe('events stored in this second'),
  ...gauges,
});

const depthSchema = z.object({
  pending: whole.describe('deliveries that wait'),
  leased: whole.describe('deliveries that agents work on'),
  dead: whole.describe('dead letters'),
  exact: z.boolean().describe('false: more than 10,000 wait or are dead, and the numbers are estimated from a sample'),
  at: timeOf('when they were counted'),
});

export const liveSchema = z.object({
  started_at: z.iso.datetime().describe('of Weir on this machine'),
  second: secondSchema.describe('the last second'),
  totals: totalsSchema.describe('since the start of Weir on this machine; ended processes are kept'),
  processes: z.array(processSchema).describe('processes of this machine'),
  database: z.enum(['up', 'down']).describe('down: no process could commit'),
  deliveries: depthSchema.nullable().describe('null: nobody watched a moment ago, or it took too long to count'),
});

export type Totals = z.infer<typeof totalsSchema>;
export type Second = z.infer<typeof secondSchema>;
export type ProcessLive = z.infer<typeof processSchema>;
export type Depth = z.infer<typeof depthSchema>;
export type Live = z.infer<typeof liveSchema>;

export type Gauges = { [Name in keyof typeof gauges]: number };

/** What one process reports to the primary once a second. */
export interface Sample {
  startedMs: number;
  totals: Totals;
  /** Commits by duration, see secondsBuckets of metrics.ts. Counts only increase. */
  commitDurations: readonly number[];
  gauges: Gauges;
  threads: number;
  database: 'up' | 'down';
  rateLimitStore: 'ok' | 'degraded';
  leaving: boolean;
}

/** Number of seconds kept and shown. */
export const HISTORY_SECONDS = 300;
