/**
 * Soak test: a moderate rate for a long time. Late responses must be as fast as early ones. Weir must keep about the same
 * memory and number of connections, and a queue of less than a second.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> \
 *       -e RATE=200 -e DURATION=30m -e METRICS_URL=http://127.0.0.1:9464/metrics k6/soak.ts
 *
 * Weir's metrics page must be reachable from this machine: when the server runs on another machine, set its METRICS_HOST.
 */
import exec from 'k6/execution';
import http from 'k6/http';
import { Trend } from 'k6/metrics';
import { Drift, phaseAt } from './lib/drift.ts';
import { figureOf, watched } from './lib/metrics-text.ts';
import { planSoak } from './lib/plans.ts';
import { preflight, sender } from './lib/post.ts';
import type { Data } from './lib/steps.ts';
import { summarize } from './lib/summary.ts';

const plan = planSoak(__ENV);
const { BODY_BYTES, METRICS_URL } = plan.settings;
const send = sender(plan.target, BODY_BYTES);

export const options = plan.options;
export const handleSummary = (data: Data) => summarize(plan, data, new Date());

const queue = new Trend('weir_queue_events');
const lateLatency = new Trend('weir_late_latency_percent');
const lateMemory = new Trend('weir_late_memory_percent');
const lateConnections = new Trend('weir_late_connections_percent');

const latencyDrift = new Drift();
const memoryDrift = new Drift();
const connectionsDrift = new Drift();

/** Checks that METRICS_URL is Weir's metrics page. */
export function setup() {
  const { status, body } = readMetrics();
  if (status !== 200)
    throw new Error(
      `METRICS_URL is ${METRICS_URL}, which returned ${status || 'no response'}; it must be the metrics page of Weir, at METRICS_HOST and METRICS_PORT of the server`,
    );
  for (const name of Object.values(watched)) figureOf(name, String(body));
  return preflight(plan);
}

/** One signed request, whose latency is compared with early ones. */
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
  return http.get(METRICS_URL, { responseType: 'text' });
}

function note(trend: Trend, percent: number | null): void {
  if (percent !== null) trend.add(percent);
}
