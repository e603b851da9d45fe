/** Counts what became of the requests of `weir send`, and tells it: one line of thought for people, one document for programs. */
import { createHistogram } from 'node:perf_hooks';
import type { Attempt } from './pace.ts';

/** The document of `--json`. */
export interface SendSummary {
  /** Requests that came to an end: answered for good, or given up. */
  sent: number;
  /** Final answers by status; one that was waited out and repeated is under `repeated`. */
  statuses: Record<string, number>;
  /** Every lost or refused connection by its name, whether the request was repeated or given up. */
  errors: Record<string, number>;
  /** Repeats by their cause: a status or the name of an error. */
  repeated: Record<string, number>;
  /** From the start of a try to the end of its answer, over final answers; null when there was none. */
  latency_ms: { p50: number | null; p90: number | null; p99: number | null; max: number | null };
  /** By how much the start of a request missed the moment that `--rate` gave it, at worst. */
  late_ms_max: number;
  /** Body bytes of the requests under `sent`. */
  bytes: number;
  seconds: number;
  requests_per_second: number;
  /** Ctrl-C ended the run early. */
  interrupted: boolean;
}

/** The running counts. Latencies go to a histogram of three digits: its memory does not grow with the requests. */
export class Tally {
  #sent = 0;
  #ok = 0;
  #bytes = 0;
  #lateMsMax = 0;
  #latencyMsMax = 0;
  readonly #statuses: Record<string, number> = {};
  readonly #errors: Record<string, number> = {};
  readonly #repeated: Record<string, number> = {};
  readonly #latenciesUs = createHistogram({ lowest: 1, highest: 3_600_000_000, figures: 3 });

  /** A request has come to its end, with this attempt. */
  finished(attempt: Attempt, bodyBytes: number): void {
    this.#sent += 1;
    this.#bytes += bodyBytes;
    if (attempt.kind === 'failed') {
      add(this.#errors, attempt.name);
      return;
    }
    if (attempt.status >= 200 && attempt.status < 300) this.#ok += 1;
    add(this.#statuses, String(attempt.status));
    this.#latencyMsMax = Math.max(this.#latencyMsMax, attempt.latencyMs);
    this.#latenciesUs.record(Math.max(1, Math.round(attempt.latencyMs * 1000)));
  }

  /** The attempt is repeated. */
  repeated(attempt: Attempt): void {
    add(this.#repeated, attempt.kind === 'failed' ? attempt.name : String(attempt.status));
    if (attempt.kind === 'failed') add(this.#errors, attempt.name);
  }

  late(ms: number): void {
    if (ms > this.#lateMsMax) this.#lateMsMax = ms;
  }

  get sent(): number {
    return this.#sent;
  }

  /** Requests whose final answer was no 2xx, or that got none. */
  get notAccepted(): number {
    return this.#sent - this.#ok;
  }

  summary(elapsedMs: number, interrupted: boolean): SendSummary {
    const measured = this.#latenciesUs;
    // The histogram tells its bucket's end, which may lie beyond the greatest value.
    const percentile = (p: number) =>
      measured.count === 0 ? null : roundTo(Math.min(measured.percentile(p) / 1000, this.#latencyMsMax), 2);
    const seconds = elapsedMs / 1000;
    return {
      sent: this.#sent,
      statuses: { ...this.#statuses },
      errors: { ...this.#errors },
      repeated: { ...this.#repeated },
      latency_ms: {
        p50: percentile(50),
        p90: percentile(90),
        p99: percentile(99),
        max: measured.count === 0 ? null : roundTo(this.#latencyMsMax, 2),
      },
      late_ms_max: roundTo(this.#lateMsMax, 1),
      bytes: this.#bytes,
      seconds: roundTo(seconds, 3),
      requests_per_second: seconds > 0 ? roundTo(this.#sent / seconds, 1) : 0,
      interrupted,
    };
  }
}

/** A schedule missed by more than this is told: timers alone miss it by a few milliseconds. */
const LATE_TOLD_MS = 100;

/** The summary for people. @param count requests that were asked for */
export function describeSummary(summary: SendSummary, count: number): string {
  const { latency_ms: latency } = summary;
  const lines = [
    `${whole(summary.sent)} ${summary.sent === 1 ? 'request' : 'requests'} in ${summary.seconds} s: ` +
      `${summary.requests_per_second} requests/s, ${whole(summary.bytes)} bytes`,
  ];
  for (const [status, times] of Object.entries(summary.statuses)) lines.push(`  ${status}  ${whole(times)}`);
  const answered = Object.values(summary.statuses).reduce((sum, times) => sum + times, 0);
  if (answered < summary.sent) lines.push(`  no answer  ${whole(summary.sent - answered)}`);
  if (latency.max !== null)
    lines.push(`Latency in ms: p50 ${latency.p50}, p90 ${latency.p90}, p99 ${latency.p99}, max ${latency.max}`);
  if (Object.keys(summary.repeated).length > 0) lines.push(`Repeated after: ${list(summary.repeated)}`);
  if (Object.keys(summary.errors).length > 0) lines.push(`Lost or refused connections: ${list(summary.errors)}`);
  if (summary.late_ms_max > LATE_TOLD_MS)
    lines.push(`The rate was not held: up to ${summary.late_ms_max} ms late. A higher --concurrency may help.`);
  if (summary.interrupted)
    lines.push(`Stopped early: ${whole(summary.sent)} of ${whole(count)} requests came to an end.`);
  return `${lines.join('\n')}\n`;
}

function list(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([name, times]) => `${name} (${whole(times)})`)
    .join(', ');
}

function add(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

function whole(value: number): string {
  return value.toLocaleString('en-GB');
}

function roundTo(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
