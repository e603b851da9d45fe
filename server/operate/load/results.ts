/** Results of one number of processes: the figures of the document, and the reasons why they may be invalid. */
import { createHistogram } from 'node:perf_hooks';
import type { Window } from './window.ts';

/** One number of processes in the `--json` document of `weir bench`. */
export interface BenchRun {
  workers: number;
  requests_per_second: number;
  /** Latency of these responses; null when there were none. */
  latency_ms: { p50: number | null; p99: number | null; max: number | null };
  /** Highest resident memory of any serving process. */
  process_memory_mb: number;
  /** Average number of cores used in the window. */
  cores_used: { weir: number; postgres: number; senders: number; others: number };
  /** Processor time per 202 response in the window, in microseconds; null when there were none. */
  cpu_us: { event_loop: number; signatures: number; other_threads: number; postgres: number } | null;
  /** Number of answers by status, warm-up included. */
  statuses: Record<string, number>;
  /** Number of broken connections by error name. */
  errors: Record<string, number>;
  /** Requests answered 202, warm-up included, and the rows committed for them. */
  accepted: number;
  stored: number;
}

/**
 * Combines the reports of all senders.
 * @param stored rows counted after Weir had exited
 */
export function runOf(workers: number, { reports, residentBytes, cores, processor }: Window, stored: number): BenchRun {
  const latenciesUs = createHistogram({ lowest: 1, highest: 3_600_000_000, figures: 3 });
  for (const report of reports) latenciesUs.add(report.latenciesUs);
  const ms = (us: number) => (latenciesUs.count === 0 ? null : rounded(us / 1000, 2));
  const perRequest = (us: number) => rounded(us / latenciesUs.count, 1);
  const statuses = sumOf(reports.map((report) => report.statuses));
  return {
    workers,
    requests_per_second: rounded(
      reports.reduce((sum, { latenciesUs: own, windowMs }) => sum + own.count / (windowMs / 1000), 0),
      1,
    ),
    latency_ms: {
      p50: ms(latenciesUs.percentile(50)),
      p99: ms(latenciesUs.percentile(99)),
      max: ms(latenciesUs.max),
    },
    process_memory_mb: rounded(residentBytes / 1e6, 1),
    cores_used: {
      weir: rounded(cores.weir, 2),
      postgres: rounded(cores.postgres, 2),
      senders: rounded(cores.senders, 2),
      others: rounded(cores.others, 2),
    },
    cpu_us:
      latenciesUs.count === 0
        ? null
        : {
            event_loop: perRequest(processor.eventLoop),
            signatures: perRequest(processor.signatures),
            other_threads: perRequest(processor.other),
            postgres: perRequest(processor.postgres),
          },
    statuses,
    errors: sumOf(reports.map((report) => report.errors)),
    accepted: statuses['202'] ?? 0,
    stored,
  };
}

/** Fixes by status, for responses that the load itself causes. */
const fixes: Readonly<Record<string, string>> = {
  503: '; if the requests exceed the memory limit of Weir, lower --connections or --size',
};

/** Reasons why a run is invalid, one sentence each. */
export function faultsOf({ workers, statuses, errors, accepted, stored }: BenchRun): string[] {
  const lost = Object.values(errors).reduce((sum, times) => sum + times, 0);
  const said = `WORKERS=${workers}:`;
  return [
    ...Object.entries(statuses)
      .filter(([status]) => status !== '202')
      .map(([status, times]) => `${said} ${times} responses were ${status}, not 202${fixes[status] ?? ''}.`),
    ...Object.entries(errors).map(([name, times]) => `${said} ${times} connections failed (${name}).`),
    ...(accepted === 0 ? [`${said} no request was answered 202.`] : []),
    // A broken connection may have carried a request that was stored but not answered.
    ...(stored < accepted || stored > accepted + lost
      ? [`${said} ${accepted} requests were answered 202, but ${stored} events are stored.`]
      : []),
  ];
}

function sumOf(all: readonly Record<string, number>[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const counts of all) for (const [name, times] of Object.entries(counts)) sum[name] = (sum[name] ?? 0) + times;
  return sum;
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
