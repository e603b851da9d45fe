/** Plans of steps, one after another, and the table that compares their figures. */
import type { Scenario, Threshold } from 'k6/options';
import {
  atMost,
  closedLoop,
  constantArrival,
  failures,
  PAUSE_MS,
  type Plan,
  planOf,
  requestsIn,
  sending,
  steady,
} from './plans.ts';
import { type Environment, readSettings, readTarget, type Settings } from './settings.ts';

const WARM_UP_MS = 5_000;
const statuses = ['202', '429', '503'];

type StepSettings = Plan['settings'] & Settings<'DURATION' | 'BODY_BYTES' | 'WORKERS' | 'RUNS'>;

/** After a warm-up, a step for each value; each has its thresholds. */
function planSteps(
  plan: Pick<Plan, 'script' | 'planned' | 'peak'> & { settings: StepSettings; values: number[] },
  environment: Environment,
  scenarioOf: (value: number, startMs: number, durationMs: number) => Scenario,
  thresholdsOf: (step: string, value: number) => Record<string, Threshold[]>,
) {
  const scenarios: Record<string, Scenario> = { warm_up: scenarioOf(plan.values[0]!, 0, WARM_UP_MS) };
  const thresholds: Record<string, Threshold[]> = {};
  const { DURATION } = plan.settings;
  for (const [i, value] of plan.values.entries()) {
    const step = nameOf(value);
    scenarios[step] = scenarioOf(value, startOf(i, DURATION), DURATION);
    for (const status of statuses) thresholds[`weir_answers{scenario:${step},status:${status}}`] = ['count>=0'];
    Object.assign(thresholds, thresholdsOf(step, value));
  }
  const target = readTarget(environment);
  return planOf({ ...plan, targets: [target], target }, scenarios, thresholds);
}

/** The plan of scale.ts. Refusals end the run: a refused request costs less than a stored one, and would flatter the figures. */
export function planScale(environment: Environment) {
  const own = { DURATION: '20s', P99_MS: 1_000, STEPS: '16,64,256', WORKERS: '', RUNS: '' };
  const settings = readSettings(environment, { ...sending, ...own });
  const plan = { script: 'scale', settings, values: settings.STEPS, planned: null, peak: null };
  return planSteps(plan, environment, closedLoop, (step) => ({
    [`http_req_duration{scenario:${step}}`]: [`p(99)<${settings.P99_MS}`],
    [`http_req_failed{scenario:${step}}`]: failures(),
    [`weir_answers{scenario:${step}}`]: ['count>0'],
    [`weir_answers{scenario:${step},status:429}`]: atMost(0),
    [`weir_answers{scenario:${step},status:503}`]: atMost(0),
  }));
}

/** The plan of breakpoint.ts. The run ends in the first step that is too fast for the server, or for k6. */
export function planBreakpoint(environment: Environment) {
  const own = { DURATION: '20s', P99_MS: 200, RATES: '500,1000,2000,4000,8000,16000', VUS: 500, WORKERS: 1, RUNS: '' };
  const settings = readSettings(environment, { ...sending, ...own });
  const scenarioOf = (rate: number, startMs: number, durationMs: number) =>
    constantArrival(rate, startMs, durationMs, settings.VUS);
  const { RATES, DURATION } = settings;
  const planned = RATES.reduce((sum, rate) => sum + requestsIn(rate, DURATION), requestsIn(RATES[0]!, WARM_UP_MS));
  const plan = { script: 'breakpoint', settings, values: RATES, planned, peak: RATES.at(-1)! };
  return planSteps(plan, environment, scenarioOf, (step, rate) => ({
    ...steady(step, rate, settings.DURATION, settings.P99_MS),
    [`http_req_duration{scenario:${step}}`]: [{ threshold: `p(99)<${settings.P99_MS}`, abortOnFail: true }],
    [`weir_answers{scenario:${step}}`]: ['count>=0'],
  }));
}

function startOf(i: number, durationMs: number): number {
  return WARM_UP_MS + PAUSE_MS + i * (durationMs + PAUSE_MS);
}

/** Scenario name of a step. */
function nameOf(value: number): string {
  return `step_${value}`;
}

interface Metric {
  /** `time` when its values are milliseconds. */
  contains?: string;
  values: Record<string, number>;
  thresholds?: Record<string, { ok: boolean }>;
}

/** The fields of k6's summary that are used. */
export interface Data {
  metrics: Record<string, Metric | undefined>;
  state?: { testRunDurationMs: number };
  /** What `setup` returned; absent when it failed. */
  setup_data?: { build: Record<string, string> };
}

/** Figures of a metric. */
export function figuresOf({ metrics }: Data, name: string): Record<string, number | undefined> {
  return metrics[name]?.values ?? {};
}

interface Step {
  /** Its virtual users, or its rate. */
  step: number;
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** Number of responses by status; `other` includes requests without a response. */
  statuses: Record<string, number>;
}

/** What a line of RUNS needs for the table. */
export interface StepsRun {
  scenario: string;
  settings: { WORKERS: number; BODY_BYTES: number };
  steps: Step[];
}

/** Figures of the steps that were reached. */
export function stepsOf({ values = [], settings }: Pick<Plan, 'values' | 'settings'>, data: Data): Step[] {
  return values.flatMap((step, i) => {
    const scenario = `scenario:${nameOf(step)}`;
    const { count = 0 } = figuresOf(data, `weir_answers{${scenario}}`);
    if (count === 0) return [];
    const counts = statuses.map((status) => figuresOf(data, `weir_answers{${scenario},status:${status}}`).count ?? 0);
    // A step in which the run was ended is shorter.
    const ranMs = Math.min(
      settings.DURATION,
      (data.state?.testRunDurationMs ?? Infinity) - startOf(i, settings.DURATION),
    );
    const { med = 0, 'p(99)': p99 = 0 } = figuresOf(data, `http_req_duration{${scenario}}`);
    return {
      step,
      requestsPerSecond: Number(((1_000 * count) / ranMs).toFixed(1)),
      p50Ms: Number(med.toFixed(2)),
      p99Ms: Number(p99.toFixed(2)),
      statuses: {
        ...Object.fromEntries(statuses.map((status, i) => [status, counts[i]!])),
        other: counts.reduce((rest, one) => rest - one, count),
      },
    };
  });
}

/** Parses a file of JSON lines. Throws an Error that names the first invalid line. */
export function runsIn(text: string): StepsRun[] {
  return text.split('\n').flatMap((line, i) => (line.trim() === '' ? [] : [parseRun(line, i + 1)]));
}

function parseRun(line: string, lineNumber: number): StepsRun {
  try {
    const run = JSON.parse(line);
    if (Array.isArray(run.steps)) return run;
  } catch {
    // The error is thrown below.
  }
  throw new Error(
    `Line ${lineNumber} of RUNS is not a run of scale.ts or breakpoint.ts: remove it, or give another file`,
  );
}

/**
 * One row for each step and number of workers. Only runs of the script and the body size of the last run count; of several runs with
 * the same number of workers, the last. `times` is the rate divided by the rate with the fewest workers.
 */
export function tableOf(runs: StepsRun[]): string {
  const newest = runs.at(-1)!;
  const comparable = runs.filter(
    ({ scenario, settings }) => scenario === newest.scenario && settings.BODY_BYTES === newest.settings.BODY_BYTES,
  );
  const last = [...new Map(comparable.map((run) => [run.settings.WORKERS, run])).values()];
  const rows = last.flatMap(({ settings, steps }) => steps.map((step) => ({ workers: settings.WORKERS, ...step })));
  rows.sort((a, b) => a.step - b.step || a.workers - b.workers);
  const lines = rows.map(({ workers, step, requestsPerSecond, p50Ms, p99Ms, statuses }) => {
    const base = rows.find((row) => row.step === step)!.requestsPerSecond;
    const times = base === 0 ? '-' : (requestsPerSecond / base).toFixed(2);
    const responses = Object.entries(statuses).filter(([, count]) => count > 0);
    const cells = [step, workers, requestsPerSecond, p50Ms, p99Ms, times];
    return `${row(cells)}   ${responses.map(([status, count]) => `${status}: ${count}`).join(', ')}`;
  });
  return `${[`${row(['step', 'workers', 'requests/s', 'p50 ms', 'p99 ms', 'times'])}   responses`, ...lines].join('\n')}\n`;
}

function row(cells: (string | number)[]): string {
  return cells.map((cell) => String(cell).padStart(11)).join('');
}
