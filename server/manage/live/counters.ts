/** Live counters, as processes report them to the primary and the primary sends them to all viewers. */
import { z } from 'zod';
import { timeOf, whole } from '../../model/fields.ts';
import { ongoingOutageSchema } from '../../model/issues.ts';
import { diskSchema, processDeathsSchema } from '../../model/machines.ts';

/** Counts of one process since its start, or of all processes since the start of the primary. They only increase. */
const totalsSchema = z.object({
  accepted: whole.describe('events stored'),
  rejected: whole.describe('requests refused for their signature (403)'),
  limited: whole.describe('requests refused by the rate limit (429)'),
  refused: whole.describe('requests refused for another client error (other 4xx)'),
  failed: whole.describe('valid requests that failed (5xx)'),
  spooled: whole.describe('events written to the spool'),
  requests: whole.describe('responses of all routes'),
  connections_refused: whole.describe(
    'connections that were closed without a response, at CONNECTIONS_MAX or CLIENT_CONNECTIONS_MAX',
  ),
});

const gauges = {
  queue_events: whole.describe('events that wait for their commit'),
  verify_queue_requests: whole.describe('requests that wait for an HMAC thread'),
  connections: whole.describe('open connections of clients'),
  open_requests: whole.describe('requests in progress'),
  streams: whole.describe('clients of GET /api/v1/stream'),
  resident_bytes: whole.describe('memory in use (RSS)'),
  event_loop_lag_ms: z.number().describe('99th percentile of the event-loop delay'),
};

/** One second, summed over all processes of this machine. */
export const secondSchema = z.object({
  at: z.iso.datetime().describe('end of this second'),
  duration_ms: whole.describe('duration of the interval, about 1000; divide counts by it for rates'),
  ...totalsSchema.shape,
  commits: whole.describe('group commits'),
  commit_p50_ms: z
    .number()
    .nullable()
    .describe('median duration of a commit, estimated from a histogram; null without a commit'),
  commit_p99_ms: z.number().nullable().describe('99th percentile of the same'),
  ...gauges,
});

export const processSchema = z.object({
  pid: whole.describe('process id'),
  started_at: timeOf('when the process started'),
  state: z
    .enum(['serving', 'draining', 'unresponsive'])
    .describe(
      'draining: it answers accepted requests, then exits; unresponsive: the primary has received no message from it for 3 s',
    ),
  database: z.enum(['up', 'down']).describe('down: no commit connection, or the database does not answer the primary'),
  rate_limit_store: z.enum(['ok', 'degraded']).describe('degraded: requests are allowed without being counted'),
  threads: whole.describe('HMAC threads that are up'),
  accepted: whole.describe('events stored in this second'),
  ...gauges,
});

const depthSchema = z.object({
  pending: whole.describe('deliveries that wait for their agent'),
  leased: whole.describe('deliveries under lease'),
  dead: whole.describe('dead letters'),
  exact: z
    .boolean()
    .describe('false: more than 10,000 are waiting or dead, and the numbers are estimated from a sample'),
  at: timeOf('when they were counted'),
});

const unknownUrlSchema = z.object({
  client: z.string().describe('address of the client; of IPv6 the first 64 bits'),
  path: z.string().describe('path of its requests; /in/… stands for further paths of the same client'),
  requests: whole.describe('at least so many requests'),
  last_at: timeOf('when the last one came'),
});

export const liveSchema = z.object({
  started_at: z.iso.datetime().describe('start of Weir on this machine'),
  second: secondSchema.describe('the last second'),
  totals: totalsSchema.describe('totals since the start of Weir on this machine, including ended processes'),
  processes: z.array(processSchema).describe('processes of this machine'),
  database: z.enum(['up', 'down']).describe('down: no process can commit, or the database does not answer the primary'),
  spooling: z
    .boolean()
    .describe('while the database is down, events are written to the spool and answered 202 (INGEST_SPOOL_DIR)'),
  outage: ongoingOutageSchema
    .nullable()
    .describe('the outage of the database that has not ended; null: none, or too short to count'),
  process_deaths: processDeathsSchema,
  disks: z.array(diskSchema).describe('disks that this machine writes to, and could read within the last minute'),
  unknown_urls: z
    .array(unknownUrlSchema)
    .describe('clients whose requests below /in/ got 404, since the start of the processes, the most frequent first'),
  issues: whole.optional().describe('open issues, at most 1,000; absent: no client was watching a moment ago'),
  deliveries: depthSchema.nullable().describe('null: no client was watching a moment ago, or counting took too long'),
});

export type Totals = z.infer<typeof totalsSchema>;
export type Second = z.infer<typeof secondSchema>;
export type ProcessLive = z.infer<typeof processSchema>;
export type Depth = z.infer<typeof depthSchema>;
export type Live = z.infer<typeof liveSchema>;

export type UnknownUrl = z.infer<typeof unknownUrlSchema>;

export type Gauges = { [Name in keyof typeof gauges]: number };

export const totalNames = Object.keys(totalsSchema.shape) as (keyof Totals)[];
export const gaugeNames = Object.keys(gauges) as (keyof Gauges)[];

/** What one process reports to the primary once a second. */
export interface Sample {
  startedMs: number;
  totals: Totals;
  /** Commits by duration, see secondsBuckets of metrics.ts. Counts only increase. */
  commitDurations: readonly number[];
  /** The spool would take an event now. */
  spools: boolean;
  gauges: Gauges;
  /** Those with the most requests. */
  unknownUrls: readonly UnknownUrl[];
  threads: number;
  database: 'up' | 'down';
  rateLimitStore: 'ok' | 'degraded';
  leaving: boolean;
}

/** Number of seconds kept and shown. */
export const HISTORY_SECONDS = 300;

/** The last HISTORY_SECONDS, second by second, and the newest state in full. The primary and each process have one. */
export class History {
  readonly #seconds: Second[];
  /** Null until the primary has sent the first state. */
  latest: Live | null = null;

  constructor(seconds: readonly Second[] = []) {
    this.#seconds = [...seconds];
  }

  /** Oldest first. */
  get seconds(): readonly Second[] {
    return this.#seconds;
  }

  add(live: Live): void {
    this.latest = live;
    this.#seconds.push(live.second);
    if (this.#seconds.length > HISTORY_SECONDS) this.#seconds.shift();
  }
}
