/** GET /metrics on METRICS_HOST:METRICS_PORT: Prometheus text, summed over processes, totals of ended ones kept. */
import { createServer, type Server } from 'node:http';
import { AggregatorRegistry, Counter, Registry } from 'prom-client';
import type { Horizon } from '../db/partitions.ts';
import { type MetricName, metricTable } from '../telemetry/metrics.ts';
import { AgentSeries } from './agent-series.ts';
import type { DatabaseFigures } from './database-figures.ts';
import { databaseFamilies, primaryFamilies, readVersion } from './families.ts';
import type { MetricsSnapshot } from './messages.ts';

type Metric = { name: string; type: string; help: string; values: { value: number }[] };

export class MetricsPage {
  readonly #collect: () => Promise<MetricsSnapshot[]>;
  readonly #onFailure: (error: Error) => void;
  readonly #own = new Registry();
  readonly #deaths = this.#counter('weir_process_restarts_total');
  readonly #rollingRestarts = this.#counter('weir_rolling_restarts_total', ['outcome']);
  readonly #expired = this.#counter('weir_leases_expired_total', ['agent']);
  readonly #settled = this.#counter('weir_deliveries_settled_total', ['agent', 'outcome']);
  readonly #unhandled = this.#counter('weir_deliveries_unhandled_total');
  /** Counters and histograms of processes that ended, summed. */
  #ended: MetricsSnapshot = [];
  #folding: Promise<void> = Promise.resolve();
  #server: Server | null = null;
  readonly #readFigures: () => Promise<DatabaseFigures | null>;
  readonly #agents = new AgentSeries();
  #horizon: Horizon | null = null;
  readonly #version = readVersion();
  #maintainedMs = 0;

  /**
   * @param collect snapshots of all living processes.
   * @param readFigures what is known of the database.
   */
  constructor(
    collect: () => Promise<MetricsSnapshot[]>,
    readFigures: () => Promise<DatabaseFigures | null>,
    onFailure: (error: Error) => void,
  ) {
    this.#readFigures = readFigures;
    this.#collect = collect;
    this.#onFailure = onFailure;
    for (const outcome of ['restarted', 'failed']) this.#rollingRestarts.inc({ outcome }, 0);
  }

  /** Keeps what a process counted, so that no total ever falls. */
  keep(lastSnapshot: MetricsSnapshot | null): void {
    if (lastSnapshot === null) return;
    const totals = (lastSnapshot as Metric[]).filter(({ type }) => type !== 'gauge');
    this.#folding = this.#folding.then(async () => {
      this.#ended = (await AggregatorRegistry.aggregate([this.#ended, totals]).getMetricsAsJSON()) as MetricsSnapshot;
    });
  }

  died(): void {
    this.#deaths.inc();
  }

  restarted(outcome: 'restarted' | 'failed'): void {
    this.#rollingRestarts.inc({ outcome });
  }

  /** Retention removed so many deliveries that no agent had settled. */
  deliveriesUnhandled(deliveries: number): void {
    this.#unhandled.inc(deliveries);
  }

  /** The span that has partitions. */
  horizon(horizon: Horizon): void {
    this.#horizon = horizon;
  }

  /** An hourly maintenance has succeeded. */
  maintained(): void {
    this.#maintainedMs = Date.now();
  }

  /** Maintenance found the last lease of so many deliveries ended: they are dead letters. */
  lastLeasesEnded(agentIds: readonly string[]): void {
    for (const id of agentIds) {
      const agent = this.#agents.known(id);
      this.#expired.inc({ agent });
      this.#settled.inc({ agent, outcome: 'dead' });
    }
  }

  /** A counter of the primary itself. */
  #counter(name: MetricName, labelNames: string[] = []): Counter {
    return new Counter({ name, help: metricTable[name][1], labelNames, registers: [this.#own] });
  }

  /** Prometheus text exposition format 0.0.4. */
  async render(): Promise<string> {
    const [living, own, figures] = await Promise.all([
      this.#collect(),
      this.#own.getMetricsAsJSON(),
      this.#readFigures(),
    ]);
    await this.#folding;
    if (figures !== null) this.#agents.admit(figures.names);
    const known = {
      version: this.#version,
      horizon: this.#horizon,
      maintainedMs: this.#maintainedMs,
      nowMs: Date.now(),
    };
    const told = [...primaryFamilies(known), ...databaseFamilies(figures, this.#agents.ids, known.nowMs)];
    const all = [...living, this.#ended, own as MetricsSnapshot, told];
    return AggregatorRegistry.aggregate(all.map((snapshot) => this.#agents.label(snapshot))).metrics();
  }

  /** Listens; rejects with the system's error when the port cannot be had. */
  listen(host: string, port: number): Promise<void> {
    const server = createServer((request, response) => {
      if (request.url !== '/metrics') return void response.writeHead(404).end();
      this.render().then(
        (text) => response.writeHead(200, { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE }).end(text),
        (error: Error) => {
          this.#onFailure(error);
          response.writeHead(500).end();
        },
      );
    });
    this.#server = server;
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, () => {
        server.off('error', reject);
        server.on('error', this.#onFailure);
        resolve();
      });
    });
  }

  async close(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}
