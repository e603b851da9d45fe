/** The measurements of a process. Each process counts; the primary sums (see operate/primary/metrics-page.ts). */
import { problems } from '../../model/errors.ts';
import { rejectionReasons } from '../../model/signatures/diagnosis/reasons.ts';
import { limitNames } from '../ratelimit/limiter.ts';
import { cellLabels, type MetricName, metricFamily } from './metric-table.ts';
import { type CountedSeries, countersOf, Distribution, type MetricSample } from './series.ts';
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

/** The counters of a process, with the series that start at 0. */
const counted = {
  weir_requests_aborted_total: [],
  weir_problems_total: Object.keys(problems).map((code) => ({ code })),
  // CONNECTIONS_MAX and CLIENT_CONNECTIONS_MAX.
  weir_connections_refused_total: [{ limit: 'process' }, { limit: 'client' }],
  weir_requests_uncounted_total: limitNames.map((limit) => ({ limit })),
  weir_events_committed_total: [{}],
  weir_events_duplicate_total: [{}],
  weir_spool_events_written_total: [{}],
  weir_events_in_doubt_total: [{ outcome: 'stored' }, { outcome: 'not_stored' }],
  weir_signatures_verified_total: [],
  weir_rejections_total: ['stored', 'sampled_out', 'queue_full', 'failed'].map((outcome) => ({ outcome })),
  weir_rejections_stored_total: Object.keys(rejectionReasons).map((reason) => ({ reason })),
  weir_thread_failures_total: [{}],
  weir_password_hashes_total: [{}],
  weir_streams_dropped_total: [{}],
  weir_deliveries_settled_total: [],
  weir_leases_expired_total: [],
  weir_filter_failures_total: [],
  weir_spans_total: ['sent', 'failed', 'limited', 'queue_full'].map((outcome) => ({ outcome })),
} as const satisfies CountedSeries;
type Counted = keyof typeof counted;

interface RouteCounts {
  statuses: Map<number, number>;
  seconds: Distribution;
}

interface CommitCounts {
  seconds: Distribution;
  events: Distribution;
}

/** The metrics registry of a process, with one method per measurement. */
export class Metrics {
  readonly #stages = stageNames.map((stage) => new Distribution(secondsBuckets, { stage }));
  readonly #routes = new Map<string, RouteCounts>();
  readonly #counters = countersOf(counted);
  readonly #committed = this.#counters.weir_events_committed_total;
  readonly verified = {
    current: this.#counters.weir_signatures_verified_total.series({ secret: 'current' }),
    previous: this.#counters.weir_signatures_verified_total.series({ secret: 'previous' }),
  };
  /** Waits for a database connection, in seconds. */
  readonly poolWait = new Distribution(secondsBuckets, {});
  readonly #commits = new Map<number, CommitCounts>();
  readonly verifyBatches = new Distribution(sizeBuckets, {});
  readonly #agents = new Set<string>();
  readonly #gauges = new Map<MetricName, () => MetricSample[]>();
  readonly #families: (() => ReturnType<typeof metricFamily>)[] = [];

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
    this.#register('weir_pool_wait_seconds', (name) => this.poolWait.samples(name));
    const commits = (of: keyof CommitCounts) => (name: string) =>
      [...this.#commits.values()].flatMap((counts) => counts[of].samples(name));
    this.#register('weir_commit_seconds', commits('seconds'));
    this.#register('weir_commit_events', commits('events'));
    this.#register('weir_verify_batch_requests', (name) => this.verifyBatches.samples(name));
    for (const name of Object.keys(counted) as Counted[]) this.#register(name, () => this.#counters[name].samples());
    this.#register('process_cpu_seconds_total', () => [{ labels: {}, value: cpuSeconds() }]);
  }

  /** Creates the series of a route with these statuses, starting at 0. */
  expect(route: string, statuses: Iterable<number>): void {
    const counts = this.#countsOf(route);
    for (const status of statuses) counts.statuses.set(status, counts.statuses.get(status) ?? 0);
    this.add('weir_requests_aborted_total', 0, { route });
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

  add(name: Counted, amount = 1, labels?: Record<string, string>): void {
    this.#counters[name].add(amount, labels);
  }

  /** The sum of all series of a counter. */
  total(name: Counted): number {
    return this.#counters[name].total;
  }

  stage(stage: Stage, seconds: number): void {
    this.#stages[stage]!.observe(seconds);
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

  inDoubt(events: number, found: number, cell: number): void {
    this.add('weir_events_in_doubt_total', found, { outcome: 'stored', ...cellLabels(cell) });
    this.add('weir_events_in_doubt_total', events - found, { outcome: 'not_stored', ...cellLabels(cell) });
  }

  settled(agentId: string, outcome: DeliveryOutcome, deliveries: number): void {
    if (deliveries > 0)
      this.add('weir_deliveries_settled_total', deliveries, { agent: this.#agentLabel(agentId), outcome });
  }

  leasesExpired(agentId: string, leases: number): void {
    if (leases > 0) this.add('weir_leases_expired_total', leases, { agent: this.#agentLabel(agentId) });
  }

  filterFailed(agentId: string, events: number): void {
    this.add('weir_filter_failures_total', events, { agent: this.#agentLabel(agentId) });
  }

  #agentLabel(agentId: string): string {
    if (this.#agents.size < AGENTS_COUNTED_MAX) this.#agents.add(agentId);
    return this.#agents.has(agentId) ? agentId : 'other';
  }

  *answers(): Iterable<{ route: string; status: number; count: number }> {
    for (const [route, { statuses }] of this.#routes)
      for (const [status, count] of statuses) yield { route, status, count };
  }

  /** Total commits by duration, see secondsBuckets. */
  commitDurations(): readonly number[] {
    const [home, ...others] = [...this.#commits.values()].map(({ seconds }) => seconds.counts);
    return others.reduce((sum, counts) => sum.map((count, i) => count + counts[i]!), home!);
  }

  /** Registers a gauge, or a counter that is counted elsewhere. `read` is called when the metrics page is rendered, and by `value`. */
  gauge(name: MetricName, read: () => number, aggregator?: 'max'): void {
    this.gauges(name, () => [{ labels: {}, value: read() }], aggregator);
  }

  gauges(name: MetricName, read: () => MetricSample[], aggregator?: 'max'): void {
    this.#register(name, read, aggregator);
    this.#gauges.set(name, read);
  }

  /** The sum of the series of a gauge, now. */
  value(name: MetricName): number {
    return this.#gauges.get(name)!().reduce((sum, { value }) => sum + value, 0);
  }

  /** All measurements, in prom-client's JSON form. */
  families() {
    return this.#families.map((read) => read());
  }

  #register(name: MetricName, samples: (name: string) => MetricSample[], aggregator?: 'max'): void {
    this.#families.push(() => metricFamily(name, samples(name), aggregator));
  }
}

/** CPU seconds used by this operating-system process. */
export function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
