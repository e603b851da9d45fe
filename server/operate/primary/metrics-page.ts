/** GET /metrics on METRICS_HOST:METRICS_PORT: Prometheus text, summed over processes, including the totals of ended processes. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { AggregatorRegistry, Registry } from 'prom-client';
import { isLoopback } from '../../base/net/loopback.ts';
import { metricFamily, withCells } from '../../base/telemetry/metric-table.ts';
import { countersOf } from '../../base/telemetry/series.ts';
import { AgentSeries, type DatabaseFigures, databaseFamilies } from './families.ts';
import type { MetricsSnapshot } from './messages.ts';

type Family = Parameters<typeof withCells>[0][number][number];
type Metric = { name: string; type: string; help: string; values: { value: number }[] };

/** Scrapers keep one connection each. Without a limit, clients could take all descriptors of the primary. */
export const CONNECTIONS_MAX = 64;

/** The counters of the primary itself, with the series that start at 0. */
const counted = {
  weir_process_restarts_total: [{}],
  weir_rolling_restarts_total: [{ outcome: 'restarted' }, { outcome: 'failed' }],
  weir_processes_replaced_for_memory_total: [{}],
  weir_leases_expired_total: [],
  weir_deliveries_settled_total: [],
  weir_events_replayed_total: [{}],
  weir_deliveries_unhandled_total: [{}],
};
type Counted = keyof typeof counted;

interface MetricsPageParts {
  /** Returns snapshots of all running processes. */
  collect: () => Promise<MetricsSnapshot[]>;
  readFigures: () => Promise<DatabaseFigures | null>;
  /** Returns the metrics of the primary itself, such as those of the spool and of alerts. */
  ownFamilies: () => Promise<MetricsSnapshot>;
  onFailure: (error: Error) => void;
}

export class MetricsPage {
  readonly #parts: MetricsPageParts;
  readonly #own = countersOf(counted);
  /** Summed counters and histograms of ended processes. */
  #ended: MetricsSnapshot = [];
  #folding: Promise<void> = Promise.resolve();
  readonly #server = createServer((request, response) => this.#respond(request, response));
  readonly #agents = new AgentSeries();

  constructor(parts: MetricsPageParts) {
    this.#parts = parts;
  }

  /** Keeps the totals of an ended process, so that no total decreases. */
  keep(lastSnapshot: MetricsSnapshot | null): void {
    if (lastSnapshot === null) return;
    const totals = (lastSnapshot as Metric[]).filter(({ type }) => type !== 'gauge');
    this.#folding = this.#folding.then(async () => {
      this.#ended = (await AggregatorRegistry.aggregate([this.#ended, totals]).getMetricsAsJSON()) as MetricsSnapshot;
    });
  }

  count(name: Counted, amount = 1, labels?: Record<string, string>): void {
    this.#own[name].add(amount, labels);
  }

  /** Counts deliveries whose last lease expired, one agent id each: they are now dead letters. */
  lastLeasesEnded(agentIds: readonly string[]): void {
    for (const id of agentIds) {
      const agent = this.#agents.known(id);
      this.count('weir_leases_expired_total', 1, { agent });
      this.count('weir_deliveries_settled_total', 1, { agent, outcome: 'dead' });
    }
  }

  /** Snapshots of all processes, at one moment: a process that ends while the database is read is not counted twice. */
  async #processes(): Promise<MetricsSnapshot[]> {
    const living = await this.#parts.collect();
    await this.#folding;
    return [...living, this.#ended];
  }

  /** Renders the metrics in the Prometheus text exposition format 0.0.4. */
  async render(): Promise<string> {
    const [processes, figures, ofPrimary] = await Promise.all([
      this.#processes(),
      this.#parts.readFigures(),
      this.#parts.ownFamilies(),
    ]);
    if (figures !== null) this.#agents.admit(figures.names);
    const own = (Object.keys(counted) as Counted[]).map((name) => metricFamily(name, this.#own[name].samples()));
    const families = [...own, ...databaseFamilies(figures, this.#agents.ids)];
    const all = [...processes, families, ofPrimary];
    const named = all.map((snapshot) => this.#agents.label(snapshot));
    return AggregatorRegistry.aggregate(withCells(named as Family[][])).metrics();
  }

  /** Listens; rejects with the system error when the port is not available. */
  async listen(host: string, port: number): Promise<void> {
    this.#server.maxConnections = CONNECTIONS_MAX;
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
    this.#server.on('error', this.#parts.onFailure);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #respond(request: IncomingMessage, response: ServerResponse): void {
    const refusal = hostProblem(request);
    if (refusal !== null) return void response.writeHead(refusal, { connection: 'close' }).end();
    // Prometheus adds `params` of a scrape, and collectors names of metrics: they select nothing here.
    if (request.url?.split('?')[0] !== '/metrics') return void response.writeHead(404).end();
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return void response.writeHead(405, { allow: 'GET, HEAD' }).end();
    this.render().then(
      (text) => response.writeHead(200, { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE }).end(text),
      (error: Error) => {
        this.#parts.onFailure(error);
        response.writeHead(500).end();
      },
    );
  }
}

/**
 * The status with which a request is refused; null: it is served. 400: Host is missing, repeated or invalid. 421: the request came over
 * loopback but names another host, as scripts of a page do when its name resolves to 127.0.0.1 (DNS rebinding).
 */
function hostProblem({ rawHeaders, headers: { host = '' }, socket }: IncomingMessage): 400 | 421 | null {
  const hosts = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host');
  if (hosts.length !== 1 || !URL.canParse(`http://${host}`)) return 400;
  const reached = socket.localAddress?.replace(/^::ffff:/, '') ?? '';
  return isLoopback(reached) && !isLoopback(new URL(`http://${host}`).hostname) ? 421 : null;
}
