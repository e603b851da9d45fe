/** k6 options of the scripts, with the thresholds that fail a run. */
import type { Options, Scenario } from 'k6/options';
import type { AgentsSettings, LoadSettings, OverloadSettings, ScaleSettings, SoakSettings } from './settings.ts';

const common = {
  discardResponseBodies: true,
  summaryTrendStats: ['min', 'med', 'p(90)', 'p(99)', 'p(99.9)', 'max'],
};

/** One iteration by one virtual user; every check must pass. */
export const smokeOptions: Options = {
  vus: 1,
  iterations: 1,
  thresholds: { checks: ['rate==1'] },
};

/** One dropped iteration fails the run, because the rate was not reached. */
export function loadOptions(settings: LoadSettings): Options {
  return {
    ...common,
    scenarios: { load: constantArrival(settings) },
    thresholds: {
      http_req_failed: ['rate<0.001'],
      http_req_duration: [`p(99)<${settings.p99Ms}`],
      dropped_iterations: ['count==0'],
    },
  };
}

/**
 * Dropped iterations do not fail the run: when all virtual users are waiting, the server has enough load. A run without
 * refusals fails, because the server was not overloaded. A run in which no event could be looked up fails too.
 *
 * Recovery is a separate scenario, because k6 itself sends late when it lacks processor time. All virtual users have
 * finished before it starts, so it reuses them with the event ids that they received.
 */
export function overloadOptions(settings: OverloadSettings): Options {
  const { startPerSecond, peakPerSecond, durationMs, vus } = settings;
  return {
    ...common,
    scenarios: {
      overload: {
        executor: 'ramping-arrival-rate',
        exec: 'overload',
        startRate: startPerSecond,
        timeUnit: '1s',
        stages: [
          { target: peakPerSecond, duration: `${durationMs}ms` },
          { target: peakPerSecond, duration: `${durationMs}ms` },
        ],
        preAllocatedVUs: vus,
        gracefulStop: `${OVERLOAD_TIMEOUT_MS}ms`,
      },
      recovery: {
        ...constantArrival({ ratePerSecond: startPerSecond, durationMs, vus }),
        exec: 'recovery',
        startTime: `${2 * durationMs + REST_MS}ms`,
      },
    },
    thresholds: {
      weir_refused: ['count>0'],
      weir_broken_contract: ['count==0'],
      weir_unanswered: ['rate<0.001'],
      'http_req_duration{scenario:overload,expected_response:true}': [`p(99)<${settings.p99Ms}`],
      'http_req_duration{scenario:recovery,method:POST}': [`p(99)<${settings.recoveryP99Ms}`],
      'http_req_failed{scenario:recovery}': ['rate<0.001'],
      ...(settings.token === null ? {} : { weir_found: ['rate==1'] }),
    },
  };
}

/** A request without a response in this time counts as unanswered. GitHub's webhook timeout is the same. */
export const OVERLOAD_TIMEOUT_MS = 10_000;

/** Weir closes a connection 10 to 14 s after its last request. A request that k6 sends at that moment is lost, and no fault of the recovery. */
const REST_MS = 16_000;

/** The lower bound is above 0 percent because k6 reports 0 as the average of no values: a missing measurement must fail too. */
const drift = (percentMax: number) => ['avg>0', `avg<${percentMax}`];

export function soakOptions(settings: SoakSettings): Options {
  const p99 = [`p(99)<${settings.p99Ms}`];
  return {
    ...common,
    summaryTrendStats: ['avg', ...common.summaryTrendStats],
    scenarios: {
      soak: { ...constantArrival(settings), exec: 'soak' },
      watch: {
        executor: 'constant-arrival-rate',
        exec: 'watch',
        rate: 1,
        timeUnit: `${Math.ceil(settings.durationMs / READINGS)}ms`,
        duration: `${settings.durationMs}ms`,
        preAllocatedVUs: 1,
      },
    },
    thresholds: {
      http_req_failed: ['rate==0'],
      'dropped_iterations{scenario:soak}': ['count==0'],
      'http_req_duration{phase:early}': p99,
      'http_req_duration{phase:late}': p99,
      weir_late_latency_percent: drift(settings.lateLatencyPercentMax),
      weir_late_memory_percent: drift(settings.lateMemoryPercentMax),
      weir_late_connections_percent: drift(CONNECTIONS_PERCENT_MAX),
      weir_queue_events: [`p(99)<${settings.ratePerSecond}`],
    },
  };
}

/** Number of reads of the metrics page in a run. */
const READINGS = 120;
/** k6 keeps its connections open, so additional connections belong to other clients or are leaks. */
const CONNECTIONS_PERCENT_MAX = 110;

/** The agents continue for DRAIN_MS after the last request. An event that is not acknowledged by then fails the run. */
export function agentsOptions(settings: AgentsSettings): Options {
  const { agents, durationMs, ratePerSecond, p99Ms, deliveryP95Ms } = settings;
  return {
    ...common,
    summaryTrendStats: ['min', 'med', 'p(90)', 'p(95)', 'p(99)', 'max'],
    scenarios: {
      load: { ...constantArrival(settings), exec: 'load' },
      consume: { ...closedLoop(agents, 0, durationMs + DRAIN_MS), exec: 'consume' },
    },
    thresholds: {
      http_req_failed: ['rate<0.001'],
      'http_req_duration{scenario:load}': [`p(99)<${p99Ms}`],
      dropped_iterations: ['count==0'],
      weir_acknowledged: [`count>=${Math.floor((ratePerSecond * durationMs) / 1_000)}`],
      weir_lost_leases: ['count==0'],
      weir_delivery_ms: [`p(95)<${deliveryP95Ms}`],
    },
  };
}

const DRAIN_MS = 5_000;

/** Refusals fail the run: a refused request costs less than a stored one and would flatter the figures. */
export function scaleOptions({ steps, durationMs, p99Ms }: ScaleSettings): Options {
  const scenarios: Record<string, Scenario> = { warm_up: closedLoop(steps[0]!, 0, WARM_UP_MS) };
  const thresholds: Record<string, string[]> = {};
  let startMs = WARM_UP_MS + PAUSE_MS;
  for (const vus of steps) {
    const step = stepName(vus);
    scenarios[step] = closedLoop(vus, startMs, durationMs);
    startMs += durationMs + PAUSE_MS;
    thresholds[`http_req_duration{scenario:${step}}`] = [`p(99)<${p99Ms}`];
    thresholds[`http_req_failed{scenario:${step}}`] = ['rate<0.001'];
    // The summary contains only the figures of a step that a threshold names.
    thresholds[`http_reqs{scenario:${step}}`] = ['count>0'];
    thresholds[`http_reqs{scenario:${step},status:202}`] = ['count>0'];
    thresholds[`http_reqs{scenario:${step},status:429}`] = ['count==0'];
    thresholds[`http_reqs{scenario:${step},status:503}`] = ['count==0'];
  }
  return { ...common, scenarios, thresholds };
}

const WARM_UP_MS = 5_000;
/** Pause between steps for the requests in flight. */
const PAUSE_MS = 2_000;

/** Scenario name of a step of scale.ts. */
export function stepName(vus: number): string {
  return `vus_${vus}`;
}

/**
 * Constant arrival rate: a slow answer does not delay the next request, so the latencies hide nothing. An iteration is
 * dropped when no virtual user is free.
 */
function constantArrival(settings: Pick<LoadSettings, 'ratePerSecond' | 'durationMs' | 'vus'>): Scenario {
  return {
    executor: 'constant-arrival-rate',
    rate: settings.ratePerSecond,
    timeUnit: '1s',
    duration: `${settings.durationMs}ms`,
    preAllocatedVUs: settings.vus,
  };
}

function closedLoop(vus: number, startMs: number, durationMs: number): Scenario {
  return {
    executor: 'constant-vus',
    vus,
    startTime: `${startMs}ms`,
    duration: `${durationMs}ms`,
    gracefulStop: `${PAUSE_MS}ms`,
  };
}
