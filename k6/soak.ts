/**
 * Soak test: a moderate rate for a long time. Late responses must be as fast as early ones. Weir must keep about the same
 * memory and number of connections, and a queue of less than a second.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> \
 *       -e RATE=200 -e DURATION=30m -e METRICS_URL=http://127.0.0.1:9464/metrics k6/soak.ts
 *
 * All requests come from one address: give the webhook a limit of its own (webhook add --rate-limit 100000000). Weir's metrics page must be reachable
 * from this machine: when the server runs on another machine, set its METRICS_HOST.
 */
import exec from 'k6/execution';
import http from 'k6/http';
import { Trend } from 'k6/metrics';
import { Drift, phaseAt } from './lib/drift.ts';
import { figureOf, watched } from './lib/metrics-text.ts';
import { soakOptions } from './lib/options.ts';
import { sender } from './lib/post.ts';
import { readSoakSettings } from './lib/settings.ts';

const settings = readSoakSettings(__ENV);
const send = sender(settings);

export const options = soakOptions(settings);

const queue = new Trend('weir_queue_events');
const lateLatency = new Trend('weir_late_latency_percent');
const lateMemory = new Trend('weir_late_memory_percent');
const lateConnections = new Trend('weir_late_connections_percent');

const latencyDrift = new Drift();
const memoryDrift = new Drift();
const connectionsDrift = new Drift();

/** Checks before the first request that METRICS_URL is Weir's metrics page. */
export function setup(): void {
  const { status, body } = readMetrics();
  if (status !== 200)
    throw new Error(
      `METRICS_URL is ${settings.metricsUrl}, which returned ${status || 'no response'}; it must be the metrics page of Weir, at METRICS_HOST and METRICS_PORT of the server`,
    );
  for (const name of Object.values(watched)) figureOf(name, String(body));
}

export function soak(): void {
  const phase = phaseAt(exec.scenario.progress);
  const { timings } = send({ tags: { phase } });
  note(lateLatency, latencyDrift.note(phase, timings.duration));
}

/** One virtual user reads the metrics page repeatedly. */
export function watch(): void {
  const phase = phaseAt(exec.scenario.progress);
  const { status, body } = readMetrics();
  // k6 counts the failure in http_req_failed.
  if (status !== 200) return;
  const text = String(body);
  queue.add(figureOf(watched.queue, text));
  note(lateMemory, memoryDrift.note(phase, figureOf(watched.memory, text)));
  note(lateConnections, connectionsDrift.note(phase, figureOf(watched.connections, text)));
}

function readMetrics() {
  return http.get(settings.metricsUrl, { responseType: 'text' });
}

function note(trend: Trend, percent: number | null): void {
  if (percent !== null) trend.add(percent);
}
