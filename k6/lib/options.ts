/** How k6 runs the scripts, and when it calls a run failed. */
import type { Options, Scenario } from 'k6/options';
import type { LoadSettings, OverloadSettings, ScaleSettings, SoakSettings } from './settings.ts';

const common = {
  discardResponseBodies: true,
  summaryTrendStats: ['min', 'med', 'p(90)', 'p(99)', 'max'],
};

/** One pass by one virtual user; every check must hold. */
export const smokeOptions: Options = {
  vus: 1,
  iterations: 1,
  thresholds: { checks: ['rate==1'] },
};

/** One dropped iteration fails the run: the rate was not sent. */
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
 * Dropped iterations are no failure here: where all virtual users wait, the server has enough to do. A run in which nothing
 * was refused fails, as it was no overload, and so does a run after which not one event could be looked up.
 *
 * The recovery is a scenario of its own, since a k6 that is short of processor time itself sends late; all virtual users
 * have ended their turn before it begins, so that it has the same ones, with what they were promised.
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
        startTime: `${2 * durationMs + OVERLOAD_TIMEOUT_MS}ms`,
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

/** When a request counts as unanswered. GitHub gives a webhook up after as long. */
export const OVERLOAD_TIMEOUT_MS = 10_000;

/** Above 0 percent, since k6 calls the average of nothing 0: a drift that was not measured has to fail too. */
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

/** Of the page of metrics, in a whole run. */
const READINGS = 120;
/** k6 keeps its connections open: what comes on top is somebody else's, or leaks. */
const CONNECTIONS_PERCENT_MAX = 110;

/** What is refused fails the run: it costs less than what is stored, and would flatter the figures. */
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
    // The summary has only those figures of a step that a threshold names.
    thresholds[`http_reqs{scenario:${step}}`] = ['count>0'];
    thresholds[`http_reqs{scenario:${step},status:202}`] = ['count>0'];
    thresholds[`http_reqs{scenario:${step},status:429}`] = ['count==0'];
    thresholds[`http_reqs{scenario:${step},status:503}`] = ['count==0'];
  }
  return { ...common, scenarios, thresholds };
}

const WARM_UP_MS = 5_000;
/** Between steps, for the answers that are under way. */
const PAUSE_MS = 2_000;

/** The scenario of a step of scale.ts. */
export function stepName(vus: number): string {
  return `vus_${vus}`;
}

/**
 * A slow answer does not slow the next request down, so that the latencies hide nothing. An iteration for which no virtual
 * user is free is dropped.
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
