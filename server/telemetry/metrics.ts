/** The table of all metrics. Each process counts; the primary sums (see primary/metrics-page.ts). */
import { Gauge, Registry } from 'prom-client';
import { type ProblemCode, problems } from '../errors.ts';
import { limitNames, type Policy } from '../ratelimit/limiter.ts';
import { rejectionReasons } from '../signatures/diagnosis/reasons.ts';
import { Distribution, HotCounter, type MetricSample } from './series.ts';
import { type Stage, stageNames } from './stages.ts';

/** Histogram bounds in seconds. A stage takes microseconds when idle and tens of milliseconds under load. */
export const secondsBuckets = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10,
];
const sizeBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];

export const metricTable = {
  weir_requests_total: ['counter', 'answered requests, by route and status'],
  weir_requests_aborted_total: ['counter', 'requests whose client disconnected before the response, by route'],
  weir_problems_total: ['counter', 'responses with a problem document, by code (see the table of errors)'],
  weir_stage_seconds: [
    'histogram',
    'duration of each step of an ingest request (accept, body, limit, verify, commit, respond)',
  ],
  weir_request_seconds: ['histogram', 'time from the first header to the response, by route'],
  weir_commit_seconds: ['histogram', 'duration of one group commit'],
  weir_commit_events: ['histogram', 'events in one group commit'],
  weir_verify_batch_requests: ['histogram', 'requests in one batch for an HMAC thread'],
  weir_events_committed_total: ['counter', 'events stored'],
  weir_events_duplicate_total: [
    'counter',
    'duplicates, which were not stored again: the value of their dedupe_header was known',
  ],
  weir_events_in_doubt_total: ['counter', 'events whose commit was not confirmed and had to be looked up, by outcome'],
  weir_signatures_verified_total: ['counter', 'verified signatures, by secret (current, previous)'],
  weir_rejections_total: ['counter', 'refused signatures, by outcome (stored, sampled_out, queue_full, failed)'],
  weir_rejections_stored_total: ['counter', 'refused signatures that were stored, by reason'],
  weir_rejection_bytes_held: ['gauge', 'memory of refused requests that wait for diagnosis and storage'],
  weir_thread_failures_total: ['counter', 'HMAC threads that exited or hung'],
  weir_password_hashes_total: ['counter', 'password hashes computed for sign-ins, set-up and password changes'],
  weir_password_requests: ['gauge', 'requests that hash a password, running or waiting'],
  weir_queue_events: ['gauge', 'events that wait for their commit'],
  weir_verify_queue_requests: ['gauge', 'requests that wait for an HMAC thread'],
  weir_body_bytes_held: ['gauge', 'memory held by request bodies'],
  weir_connections: ['gauge', 'open TCP connections'],
  weir_open_requests: ['gauge', 'requests in progress'],
  weir_streams: ['gauge', 'open live streams (GET /api/v1/stream)'],
  weir_streams_dropped_total: ['counter', 'live streams that were closed because their client did not read'],
  weir_claims_waiting: ['gauge', 'claims that wait for a delivery'],
  weir_threads: ['gauge', 'HMAC threads that are up'],
  weir_webhooks_secret_unavailable: [
    'gauge',
    'webhooks with a stored secret that no key decrypts; their requests are answered 503 secret_unavailable',
  ],
  weir_database_up: ['gauge', 'processes whose commit connection is up'],
  weir_requests_uncounted_total: [
    'counter',
    'requests allowed without being counted because the shared rate-limit store was unavailable, by limit',
  ],
  weir_pool_wait_seconds: ['histogram', 'time that a query waited for a connection of the pool (DB_POOL_MAX)'],
  weir_rate_limit_degraded: ['gauge', 'processes whose shared rate-limit store is unavailable'],
  weir_event_loop_lag_seconds: [
    'gauge',
    '99th percentile of the event-loop delay in the worst second of the last 60, of the worst process',
  ],
  weir_resident_bytes: ['gauge', 'resident memory, summed over processes'],
  weir_processes: ['gauge', 'serving processes'],
  weir_deliveries_unhandled_total: [
    'counter',
    'deliveries removed by retention before an agent settled them (counted by the primary that removed them)',
  ],
  weir_deliveries_pending: ['gauge', 'deliveries in state pending, by agent, of the whole database'],
  weir_deliveries_oldest_pending_seconds: [
    'gauge',
    'how long the oldest claimable delivery has waited, by agent, of the whole database; 0 if none is waiting',
  ],
  weir_deliveries_leased: ['gauge', 'deliveries under lease, by agent, of the whole database'],
  weir_deliveries_dead: ['gauge', 'dead letters, by agent, of the whole database'],
  weir_deliveries_exact: [
    'gauge',
    '1: the numbers of deliveries are counted; 0: more than 10,000 are waiting or dead, and the numbers are estimated from a sample',
  ],
  weir_deliveries_settled_total: [
    'counter',
    'deliveries settled, by outcome (acknowledged, retried, dead) and agent (the first 100; all others are other)',
  ],
  weir_leases_expired_total: ['counter', 'leases that expired without an acknowledgement, by agent'],
  weir_database_bytes: ['gauge', 'size of the database on disk, with indexes'],
  weir_database_read_timestamp_seconds: [
    'gauge',
    'when the metrics of the whole database were last read (Unix time); at most every 5 s, not while the database is unavailable',
  ],
  weir_partitions_ahead: ['gauge', 'days after today that have partitions'],
  weir_maintenance_timestamp_seconds: [
    'gauge',
    'end of the last successful hourly maintenance (Unix time); 0: none since the start',
  ],
  weir_build_info: ['gauge', 'always 1; labels: versions of Weir and Node.js'],
  process_start_time_seconds: ['gauge', 'start of the primary (Unix time)'],
  process_cpu_seconds_total: ['counter', 'user and system CPU time, summed over the primary and all processes'],
  weir_process_restarts_total: ['counter', 'processes that exited unexpectedly, or were not ready in time'],
  weir_rolling_restarts_total: ['counter', 'rolling restarts (HUP), by outcome (restarted, failed)'],
} as const satisfies Record<string, readonly ['counter' | 'gauge' | 'histogram', string]>;

export type MetricName = keyof typeof metricTable;

/** Outcomes of a delivery that an agent had leased. */
export const deliveryOutcomes = ['acknowledged', 'retried', 'dead'] as const;
type DeliveryOutcome = (typeof deliveryOutcomes)[number];

/** Maximum agents with their own series in one process. The metrics page shows fewer (primary/agent-series.ts). */
const AGENTS_COUNTED_MAX = 1_000;

const rejectionOutcomes = ['stored', 'sampled_out', 'queue_full', 'failed'] as const;

/** Responses of one route by status, and their durations. */
interface RouteCounts {
  statuses: Map<number, number>;
  seconds: Distribution;
}

/** The metrics registry of a process, with one method per measurement. */
export class Metrics {
  readonly registry = new Registry();
  readonly #stages = stageNames.map((stage) => new Distribution(secondsBuckets, { stage }));
  readonly #routes = new Map<string, RouteCounts>();
  readonly #aborted = new HotCounter([]);
  readonly #problems = new HotCounter(Object.keys(problems).map((code) => ({ code })));
  readonly #uncounted = new HotCounter(limitNames.map((limit) => ({ limit })));
  readonly #poolWait = new Distribution(secondsBuckets, {});
  readonly #commitSeconds = new Distribution(secondsBuckets, {});
  readonly #commitEvents = new Distribution(sizeBuckets, {});
  readonly #verifyBatches = new Distribution(sizeBuckets, {});
  readonly #committed = new HotCounter();
  readonly #repeated = new HotCounter();
  readonly #inDoubt = new HotCounter([{ outcome: 'stored' }, { outcome: 'not_stored' }]);
  readonly #verified = new HotCounter([{ secret: 'current' }, { secret: 'previous' }]);
  readonly #rejections = new HotCounter(rejectionOutcomes.map((outcome) => ({ outcome })));
  readonly #rejectionReasons = new HotCounter(Object.keys(rejectionReasons).map((reason) => ({ reason })));
  readonly #threadFailures = new HotCounter();
  readonly #passwordHashes = new HotCounter();
  readonly #streamsCut = new HotCounter();
  readonly #settled = new HotCounter([]);
  readonly #leasesExpired = new HotCounter([]);
  readonly #agents = new Set<string>();

  constructor() {
    this.#register('weir_stage_seconds', (name) => this.#stages.flatMap((stage) => stage.samples(name)));
    this.#register('weir_request_seconds', (name) =>
      [...this.#routes.values()].flatMap(({ seconds }) => seconds.samples(name)),
    );
    this.#register('weir_requests_total', () =>
      [...this.#routes].flatMap(([route, { statuses }]) =>
        [...statuses].map(([status, value]) => ({ labels: { route, status: String(status) }, value })),
      ),
    );
    this.#register('weir_requests_aborted_total', () => this.#aborted.samples());
    this.#register('weir_problems_total', () => this.#problems.samples());
    this.#register('weir_requests_uncounted_total', () => this.#uncounted.samples());
    this.#register('weir_pool_wait_seconds', (name) => this.#poolWait.samples(name));
    this.#register('weir_commit_seconds', (name) => this.#commitSeconds.samples(name));
    this.#register('weir_commit_events', (name) => this.#commitEvents.samples(name));
    this.#register('weir_verify_batch_requests', (name) => this.#verifyBatches.samples(name));
    this.#register('weir_events_committed_total', () => this.#committed.samples());
    this.#register('weir_events_duplicate_total', () => this.#repeated.samples());
    this.#register('weir_events_in_doubt_total', () => this.#inDoubt.samples());
    this.#register('weir_signatures_verified_total', () => this.#verified.samples());
    this.#register('weir_rejections_total', () => this.#rejections.samples());
    this.#register('weir_rejections_stored_total', () => this.#rejectionReasons.samples());
    this.#register('weir_thread_failures_total', () => this.#threadFailures.samples());
    this.#register('weir_password_hashes_total', () => this.#passwordHashes.samples());
    this.#register('weir_streams_dropped_total', () => this.#streamsCut.samples());
    this.#register('weir_deliveries_settled_total', () => this.#settled.samples());
    this.#register('weir_leases_expired_total', () => this.#leasesExpired.samples());
    this.#register('process_cpu_seconds_total', () => [{ labels: {}, value: cpuSeconds() }]);
  }

  /** Creates the series of a route with these statuses, starting at 0. */
  expect(route: string, statuses: Iterable<number>): void {
    const counts = this.#countsOf(route);
    for (const status of statuses) counts.statuses.set(status, counts.statuses.get(status) ?? 0);
    this.#aborted.add(0, { route });
  }

  request(route: string, status: number, seconds: number): void {
    const counts = this.#countsOf(route);
    counts.statuses.set(status, (counts.statuses.get(status) ?? 0) + 1);
    counts.seconds.observe(seconds);
  }

  #countsOf(route: string): RouteCounts {
    let counts = this.#routes.get(route);
    if (counts === undefined) {
      counts = { statuses: new Map(), seconds: new Distribution(secondsBuckets, { route }) };
      this.#routes.set(route, counts);
    }
    return counts;
  }

  /** Counts a request that was answered with a problem document. */
  problem(code: ProblemCode): void {
    this.#problems.add(1, { code });
  }

  /** Counts a request that was allowed because the rate limit failed open. */
  uncounted(limit: Policy['name']): void {
    this.#uncounted.add(1, { limit });
  }

  poolWaited(seconds: number): void {
    this.#poolWait.observe(seconds);
  }

  stage(stage: Stage, seconds: number): void {
    this.#stages[stage]!.observe(seconds);
  }

  aborted(route: string): void {
    this.#aborted.add(1, { route });
  }

  committed(events: number, seconds: number): void {
    this.#committed.add(events);
    this.#commitEvents.observe(events);
    this.#commitSeconds.observe(seconds);
  }

  repeated(events: number): void {
    this.#repeated.add(events);
  }

  inDoubt(events: number, found: number): void {
    this.#inDoubt.add(found, { outcome: 'stored' });
    this.#inDoubt.add(events - found, { outcome: 'not_stored' });
  }

  verified(secret: 'current' | 'previous'): void {
    this.#verified.add(1, { secret });
  }

  rejected(outcome: (typeof rejectionOutcomes)[number], requests: number): void {
    this.#rejections.add(requests, { outcome });
  }

  rejectionStored(reason: string): void {
    this.#rejectionReasons.add(1, { reason });
  }

  verifyBatch(requests: number): void {
    this.#verifyBatches.observe(requests);
  }

  threadFailed(): void {
    this.#threadFailures.add(1);
  }

  passwordHashed(): void {
    this.#passwordHashes.add(1);
  }

  settled(agentId: string, outcome: DeliveryOutcome, deliveries: number): void {
    if (deliveries > 0) this.#settled.add(deliveries, { agent: this.#agentLabel(agentId), outcome });
  }

  leasesExpired(agentId: string, leases: number): void {
    if (leases > 0) this.#leasesExpired.add(leases, { agent: this.#agentLabel(agentId) });
  }

  #agentLabel(agentId: string): string {
    if (this.#agents.size < AGENTS_COUNTED_MAX) this.#agents.add(agentId);
    return this.#agents.has(agentId) ? agentId : 'other';
  }

  streamCut(): void {
    this.#streamsCut.add(1);
  }

  /** Total responses, by route and status. */
  *answers(): Iterable<{ route: string; status: number; count: number }> {
    for (const [route, { statuses }] of this.#routes)
      for (const [status, count] of statuses) yield { route, status, count };
  }

  /** Total commits by duration (see secondsBuckets), and total events committed. */
  commits(): { events: number; durations: readonly number[] } {
    return { events: this.#committed.total, durations: this.#commitSeconds.counts };
  }

  /** Registers a gauge. `read` is called when the metrics page is rendered. */
  gauge(name: MetricName, read: () => number, aggregator: 'sum' | 'max' = 'sum'): void {
    const help = metricTable[name][1];
    this.registry.registerMetric(
      new Gauge({
        name,
        help,
        aggregator,
        registers: [],
        collect() {
          this.set(read());
        },
      }),
    );
  }

  #register(name: MetricName, samples: (name: string) => MetricSample[]): void {
    // prom-client's registry only calls get() of a metric.
    const metric = { name, get: () => metricFamily(name, samples(name)) };
    this.registry.registerMetric(metric as unknown as Gauge);
  }
}

/** Returns one metric in prom-client's JSON form. @param aggregator how to combine series with the same labels. */
export function metricFamily(name: MetricName, values: MetricSample[], aggregator: 'sum' | 'max' = 'sum') {
  const [type, help] = metricTable[name];
  return { name, help, type, values, aggregator };
}

/** CPU seconds used by this operating-system process. */
export function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
