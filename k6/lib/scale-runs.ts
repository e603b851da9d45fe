/** Results of scale.ts: converts k6's summary to a JSON line, and such lines to a table. */
import { stepName } from './options.ts';
import type { ScaleSettings } from './settings.ts';

/** The fields of k6's summary that are used. */
export type Metrics = Record<string, { values: Record<string, number> } | undefined>;

export interface Step {
  vus: number;
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** Number of responses by status; `other` includes requests without a response. */
  statuses: Record<string, number>;
}

export interface Run {
  at: string;
  workers: number;
  bodyBytes: number;
  steps: Step[];
}

export function runOf({ workers, bodyBytes, steps, durationMs }: ScaleSettings, metrics: Metrics, at: Date): Run {
  return {
    at: at.toISOString(),
    workers,
    bodyBytes,
    steps: steps.map((vus) => stepOf(vus, durationMs, metrics)),
  };
}

function stepOf(vus: number, durationMs: number, metrics: Metrics): Step {
  const step = `scenario:${stepName(vus)}`;
  const figure = (name: string, stat: string) => metrics[name]?.values[stat] ?? 0;
  const requests = figure(`http_reqs{${step}}`, 'count');
  const statuses: Record<string, number> = {};
  for (const status of ['202', '429', '503']) statuses[status] = figure(`http_reqs{${step},status:${status}}`, 'count');
  statuses.other = Object.values(statuses).reduce((rest, count) => rest - count, requests);
  return {
    vus,
    requestsPerSecond: rounded((1_000 * requests) / durationMs, 1),
    p50Ms: rounded(figure(`http_req_duration{${step}}`, 'med'), 2),
    p99Ms: rounded(figure(`http_req_duration{${step}}`, 'p(99)'), 2),
    statuses,
  };
}

/** Parses a file of JSON lines. Throws an Error that names the first invalid line. */
export function runsIn(text: string): Run[] {
  return text.split('\n').flatMap((line, i) => (line.trim() === '' ? [] : [parseRun(line, i + 1)]));
}

function parseRun(line: string, lineNumber: number): Run {
  try {
    const run = JSON.parse(line);
    if (Array.isArray(run.steps)) return run;
  } catch {
    // The error is thrown below.
  }
  throw new Error(`Line ${lineNumber} of RUNS is not a run of scale.ts: remove it, or give another file`);
}

/**
 * One row for each step and number of workers, ordered by virtual users. Only runs with the body size of the last run count;
 * of several runs with the same number of workers, the last. `times` is the rate divided by the rate with the fewest
 * workers.
 */
export function tableOf(runs: Run[]): string {
  const comparable = runs.filter(({ bodyBytes }) => bodyBytes === runs.at(-1)!.bodyBytes);
  const last = [...new Map(comparable.map((run) => [run.workers, run])).values()];
  last.sort((a, b) => a.workers - b.workers);
  const rows = last.flatMap(({ workers, steps }) => steps.map((step) => ({ workers, ...step })));
  rows.sort((a, b) => a.vus - b.vus || a.workers - b.workers);
  const lines = rows.map(({ workers, vus, requestsPerSecond, p50Ms, p99Ms, statuses }) => {
    const base = rows.find((row) => row.vus === vus)!;
    const cells = [vus, workers, requestsPerSecond, p50Ms, p99Ms, factor(requestsPerSecond, base.requestsPerSecond)];
    const responses = Object.entries(statuses).filter(([, count]) => count > 0);
    return `${row(cells)}   ${responses.map(([status, count]) => `${status}: ${count}`).join(', ')}`;
  });
  return `${[`${row(['VUs', 'workers', 'requests/s', 'p50 ms', 'p99 ms', 'times'])}   responses`, ...lines].join('\n')}\n`;
}

function row(cells: (string | number)[]): string {
  return cells.map((cell) => String(cell).padStart(11)).join('');
}

function factor(rate: number, base: number): string {
  return base === 0 ? '-' : (rate / base).toFixed(2);
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
