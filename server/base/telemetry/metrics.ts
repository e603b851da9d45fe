/** The measurements of a process. Each process counts; the primary sums (see operate/primary/metrics-page.ts). */
import { Gauge, Registry } from 'prom-client';
import { type ProblemCode, problems } from '../../model/errors.ts';
import { rejectionReasons } from '../../model/signatures/diagnosis/reasons.ts';
import { limitNames, type Policy } from '../ratelimit/limiter.ts';
import { cellLabels, type MetricName, metricFamily, metricTable } from './metric-table.ts';
import { Distribution, HotCounter, type MetricSample } from './series.ts';
import { type Stage, stageNames } from './stages.ts';

/** Histogram bounds in seconds. A stage takes microseconds when idle and tens of milliseconds under load. */
export const secondsBuckets = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10,
];
const sizeBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/** Outcomes of a delivery: of a lease, or filtered before the first one. */
export const deliveryOutcomes = ['acknowledged', 'retried', 'dead', 'filtered'] as const;
type DeliveryOutcome = (typeof deliveryOutcomes)[number];

/** Maximum agents with their own series in one process. The metrics page shows fewer (operate/primary/families.ts). */
const AGENTS_COUNTED_MAX = 1_000;

/** CONNECTIONS_MAX and CLIENT_CONNECTIONS_MAX. */
const connectionLimits = ['process', 'client'] as const;

const rejectionOutcomes = ['stored', 'sampled_out', 'queue_full', 'failed'] as const;

/** Responses of one route by status, and their durations. */
interface RouteCounts {
  statuses: Map<number, number>;
  seconds: Distribution;
}

/** Group commits of one cell. */
interface CommitCounts {
  seconds: Distribution;
  events: Distribution;
}

/** The metrics registry of a process, with one method per measurement. */
export class Metrics {
  readonly registry = new Registry();
  readonly #stages = stageNames.map((stage) => new Distribution(secondsBuckets, { stage }));
  readonly #routes = new Map<string, RouteCounts>();
  readonly #aborted = new HotCounter([]);
  readonly #problems = new HotCounter(Object.keys(problems).map((code) => ({ code })));
  readonly #connectionsRefused = new HotCounter(connectionLimits.map((limit) => ({ limit })));
  readonly #uncounted = new HotCounter(limitNames.map((limit) => ({ limit })));
  readonly #poolWait = new Distribution(secondsBuckets, {});
  readonly #commits = new Map<number, CommitCounts>();
  readonly #verifyBatches = new Distribution(sizeBuckets, {});
  readonly #committed = new HotCounter();
  readonly #repeated = new HotCounter();
  readonly #spooled = new HotCounter();
  readonly #inDoubt = new HotCounter([{ outcome: 'stored' }, { outcome: 'not_stored' }]);
  readonly #verified = new HotCounter([]);
  readonly #verifiedBy = {
    current: this.#verified.series({ secret: 'current' }),
    previous: this.#verified.series({ secret: 'previous' }),
  };
  readonly #rejections = new HotCounter(rejectionOutcomes.map((outcome) => ({ outcome })));
  readonly #rejectionReasons = new HotCounter(Object.keys(rejectionReasons).map((reason) => ({ reason })));
  readonly #threadFailures = new HotCounter();
  readonly #passwordHashes = new HotCounter();
  readonly #streamsCut = new HotCounter();
  readonly #settled = new HotCounter([]);
  readonly #leasesExpired = new HotCounter([]);
  readonly #filterFailures = new HotCounter([]);
  readonly #agents = new Set<string>();

  constructor() {
    this.#commitsOf(0);
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
    this.#register('weir_connections_refused_total', () => this.#connectionsRefused.samples());
    this.#register('weir_requests_uncounted_total', () => this.#uncounted.samples());
    this.#register('weir_pool_wait_seconds', (name) => this.#poolWait.samples(name));
    const commits = (of: keyof CommitCounts) => (name: string) =>
      [...this.#commits.values()].flatMap((counts) => counts[of].samples(name));
    this.#register('weir_commit_seconds', commits('seconds'));
    this.#register('weir_commit_events', commits('events'));
    this.#register('weir_verify_batch_requests', (name) => this.#verifyBatches.samples(name));
    this.#register('weir_events_committed_total', () => this.#committed.samples());
    this.#register('weir_events_duplicate_total', () => this.#repeated.samples());
    this.#register('weir_spool_events_written_total', () => this.#spooled.samples());
    this.#register('weir_events_in_doubt_total', () => this.#inDoubt.samples());
    this.#register('weir_signatures_verified_total', () => this.#verified.samples());
    this.#register('weir_rejections_total', () => this.#rejections.samples());
    this.#register('weir_rejections_stored_total', () => this.#rejectionReasons.samples());
    this.#register('weir_thread_failures_total', () => this.#threadFailures.samples());
    this.#register('weir_password_hashes_total', () => this.#passwordHashes.samples());
    this.#register('weir_streams_dropped_total', () => this.#streamsCut.samples());
    this.#register('weir_deliveries_settled_total', () => this.#settled.samples());
    this.#register('weir_leases_expired_total', () => this.#leasesExpired.samples());
    this.#register('weir_filter_failures_total', () => this.#filterFailures.samples());
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

  /** Counts a connection that was closed at once. */
  connectionRefused(limit: (typeof connectionLimits)[number]): void {
    this.#connectionsRefused.add(1, { limit });
  }

  get connectionsRefused(): number {
    return this.#connectionsRefused.total;
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

  committed(events: number, seconds: number, cell: number): void {
    const counts = this.#commitsOf(cell);
    this.#committed.add(events, counts.events.labels);
    counts.events.observe(events);
    counts.seconds.observe(seconds);
  }

  #commitsOf(cell: number): CommitCounts {
    let counts = this.#commits.get(cell);
    if (counts === undefined) {
      const labels = cellLabels(cell);
      counts = { seconds: new Distribution(secondsBuckets, labels), events: new Distribution(sizeBuckets, labels) };
      this.#commits.set(cell, counts);
    }
    return counts;
  }

  repeated(events: number, cell: number): void {
    this.#repeated.add(events, cellLabels(cell));
  }

  spooled(events: number): void {
    this.#spooled.add(events);
  }

  get spooledEvents(): number {
    return this.#spooled.total;
  }

  inDoubt(events: number, found: number, cell: number): void {
    this.#inDoubt.add(found, { outcome: 'stored', ...cellLabels(cell) });
    this.#inDoubt.add(events - found, { outcome: 'not_stored', ...cellLabels(cell) });
  }

  verified(secret: 'current' | 'previous'): void {
    this.#verifiedBy[secret].value++;
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

  filterFailed(agentId: string, events: number): void {
    this.#filterFailures.add(events, { agent: this.#agentLabel(agentId) });
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
    const [home, ...others] = [...this.#commits.values()].map(({ seconds }) => seconds.counts);
    const durations = others.reduce((sum, counts) => sum.map((count, i) => count + counts[i]!), home!);
    return { events: this.#committed.total, durations };
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

  /** Registers a counter that is counted elsewhere. `read` is called when the metrics page is rendered. */
  counter(name: MetricName, read: () => number): void {
    this.#register(name, () => [{ labels: {}, value: read() }]);
  }

  /** Registers a gauge with several series. `read` is called when the metrics page is rendered. */
  gauges(name: MetricName, read: () => MetricSample[], aggregator?: 'max'): void {
    this.#register(name, read, aggregator);
  }

  #register(name: MetricName, samples: (name: string) => MetricSample[], aggregator?: 'max'): void {
    // prom-client's registry only calls get() of a metric.
    const metric = { name, get: () => metricFamily(name, samples(name), aggregator) };
    this.registry.registerMetric(metric as unknown as Gauge);
  }
}

/** CPU seconds used by this operating-system process. */
export function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
