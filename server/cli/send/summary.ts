/** Counts the results of `weir send` and formats them: text for people, a JSON document for programs. */
import { createHistogram } from 'node:perf_hooks';
import { wholeText } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';

/**
 * Result of one attempt. `isStored`: the answer names an event (X-Weir-Event-Id). `detail`: why the request was refused, from a problem
 * document (RFC 9457).
 */
export type SendAttempt =
  | {
      kind: 'answered';
      status: number;
      isStored?: boolean;
      retryAfterMs: number | null;
      latencyMs: number;
      detail?: string;
    }
  | { kind: 'failed'; name: string };

/** The `--json` document. */
export interface SendSummary {
  /** Requests that have ended: answered, or given up. */
  sent: number;
  /** Requests whose answer names a stored event (X-Weir-Event-Id), whatever its status. */
  stored: number;
  /** Final responses by status; a response that was retried counts under `repeated`. */
  statuses: Record<string, number>;
  /** Why requests were refused, by status: the first `detail` of a problem document with that status. */
  details: Record<string, string>;
  /** Lost or refused connections by error name, whether the request was retried or given up. */
  errors: Record<string, number>;
  /** Retries by cause: a status or an error name. */
  repeated: Record<string, number>;
  /** Latency of final responses, from the start of the attempt to the end of its response; null when there were none. */
  latency_ms: { p50: number | null; p90: number | null; p99: number | null; max: number | null };
  /** Largest delay of a request behind the time that `--rate` scheduled. */
  late_ms_max: number;
  /** Body bytes of the requests counted in `sent`. */
  bytes: number;
  seconds: number;
  requests_per_second: number;
  /** A signal, such as Ctrl-C, ended the run early. */
  interrupted: boolean;
}

type Counts = Omit<SendSummary, 'latency_ms' | 'seconds' | 'requests_per_second' | 'interrupted'>;

/** Running counts. Latencies go to a histogram with three significant digits, so memory does not grow with the number of requests. */
export class SendTally {
  readonly #counts: Counts = {
    sent: 0,
    stored: 0,
    statuses: {},
    details: {},
    errors: {},
    repeated: {},
    late_ms_max: 0,
    bytes: 0,
  };
  #ok = 0;
  #latencyMsMax = 0;
  readonly #latenciesUs = createHistogram({ lowest: 1, highest: 3_600_000_000, figures: 3 });

  /** Counts a request that ended with this attempt. */
  finished(attempt: SendAttempt, bodyBytes: number): void {
    const counts = this.#counts;
    counts.sent += 1;
    counts.bytes += bodyBytes;
    if (attempt.kind === 'failed') return add(counts.errors, attempt.name);
    const { status, isStored, detail, latencyMs } = attempt;
    if (status >= 200 && status < 300) this.#ok += 1;
    if (isStored) counts.stored += 1;
    add(counts.statuses, String(status));
    if (detail !== undefined) counts.details[status] ??= detail;
    this.#latencyMsMax = Math.max(this.#latencyMsMax, latencyMs);
    this.#latenciesUs.record(Math.max(1, Math.round(latencyMs * 1000)));
  }

  /** Counts an attempt that is retried. */
  repeated(attempt: SendAttempt): void {
    add(this.#counts.repeated, attempt.kind === 'failed' ? attempt.name : String(attempt.status));
    if (attempt.kind === 'failed') add(this.#counts.errors, attempt.name);
  }

  late(ms: number): void {
    this.#counts.late_ms_max = Math.max(this.#counts.late_ms_max, ms);
  }

  get sent(): number {
    return this.#counts.sent;
  }

  /** Requests that ended without a 2xx answer. */
  get notAccepted(): number {
    return this.sent - this.#ok;
  }

  summary(elapsedMs: number, interrupted: boolean): SendSummary {
    const measured = this.#latenciesUs;
    // The histogram returns the upper bound of a bucket, which may exceed the largest value.
    const percentile = (p: number) =>
      measured.count === 0 ? null : roundTo(Math.min(measured.percentile(p) / 1000, this.#latencyMsMax), 2);
    const seconds = elapsedMs / 1000;
    return {
      ...this.#counts,
      latency_ms: { p50: percentile(50), p90: percentile(90), p99: percentile(99), max: percentile(100) },
      late_ms_max: roundTo(this.#counts.late_ms_max, 1),
      seconds: roundTo(seconds, 3),
      requests_per_second: seconds > 0 ? roundTo(this.sent / seconds, 1) : 0,
      interrupted,
    };
  }
}

/** Delays above this are reported. Timers alone cause delays of a few milliseconds. */
const LATE_SHOWN_MS = 100;

/** Formats the summary as text. @param count number of requested requests */
export function describeSummary(summary: SendSummary, count: number): string {
  const { latency_ms: latency } = summary;
  const lines = [
    `${wholeText(summary.sent)} ${summary.sent === 1 ? 'request' : 'requests'} in ${summary.seconds} s: ` +
      `${summary.requests_per_second} requests/s, ${wholeText(summary.bytes)} bytes`,
  ];
  for (const [status, times] of Object.entries(summary.statuses)) {
    const detail = summary.details[status];
    lines.push(`  ${status}  ${wholeText(times)}${detail === undefined ? '' : `  ${visibleLine(detail)}`}`);
  }
  const answered = Object.values(summary.statuses).reduce((sum, times) => sum + times, 0);
  if (answered < summary.sent) lines.push(`  no response  ${wholeText(summary.sent - answered)}`);
  if (latency.max !== null)
    lines.push(`Latency in ms: p50 ${latency.p50}, p90 ${latency.p90}, p99 ${latency.p99}, max ${latency.max}`);
  if (Object.keys(summary.repeated).length > 0) lines.push(`Retried after: ${list(summary.repeated)}`);
  if (Object.keys(summary.errors).length > 0) lines.push(`Lost or refused connections: ${list(summary.errors)}`);
  if (summary.late_ms_max > LATE_SHOWN_MS)
    lines.push(
      `The rate was not reached: requests were up to ${summary.late_ms_max} ms late. A higher --concurrency may help.`,
    );
  if (summary.interrupted)
    lines.push(`Stopped early: ${wholeText(summary.sent)} of ${wholeText(count)} requests completed.`);
  return `${lines.join('\n')}\n`;
}

function list(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([name, times]) => `${name} (${wholeText(times)})`)
    .join(', ');
}

function add(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

function roundTo(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
