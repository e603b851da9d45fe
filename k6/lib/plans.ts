/** What each script sends and when it fails: its settings, and the options of k6 with the thresholds. */
import type { Options, Scenario, Threshold } from 'k6/options';
import { answerSelectors } from './answers.ts';
import { EARLY_SHARE } from './drift.ts';
import { readWebhooks } from './mix.ts';
import { type Environment, readSettings, readTarget, type Settings, type Target } from './settings.ts';

/** Settings of every script that sends load. */
const labels = { COMMIT: '', MACHINE: '', METRICS_URL: '', SUMMARY: '' };
export const sending = { ...labels, BODY_BYTES: 1024, DURATION: '30s', P99_MS: 60 };
const arriving = { ...sending, RATE: 200, VUS: 50 };

export interface Plan {
  script: string;
  /** Webhooks that receive the requests. */
  targets: Target[];
  settings: Settings<keyof typeof labels | 'DURATION'>;
  /** Requests of the whole run, its warm-up included; null: as many as the server answers. */
  planned: number | null;
  /** The highest rate of requests a second; null: unknown. */
  peak: number | null;
  /** Virtual users or rates of steps that are compared. */
  values?: number[];
  options: Options & { scenarios: Record<string, Scenario>; thresholds: Record<string, Threshold[]> };
}

const common = { summaryTrendStats: ['avg', 'min', 'med', 'p(90)', 'p(95)', 'p(99)', 'p(99.9)', 'max'] };

/** Time for the requests in flight between two scenarios; the second one reuses the virtual users and their connections. */
export const PAUSE_MS = 2_000;
/** Share of the planned requests that may stay unsent, or get another answer than expected. */
const LOSS_MAX = 0.001;
/** A request without a response in this time counts as unanswered. GitHub's webhook timeout is the same. */
export const OVERLOAD_TIMEOUT_MS = 10_000;
/** Weir closes a connection 10 to 14 s after its last request. The loss of a request sent at that moment says nothing about recovery. */
const REST_MS = 16_000;
/** Number of reads of the metrics page in a soak. */
const READINGS = 120;
/** k6 keeps its connections open, so additional connections belong to other clients or are leaks. */
const CONNECTIONS_PERCENT_MAX = 110;
/** Requests of each virtual user. The mean of few requests is imprecise, and a ratio to an imprecise mean is too large on average. */
const EARLY_REQUESTS_MIN = 50;
/** How long agents continue after the last request. */
const DRAIN_MS = 5_000;

/** A count that only grows: the run ends as soon as it is too high. */
export function atMost(count: number): Threshold[] {
  return [{ threshold: `count<=${Math.floor(count)}`, abortOnFail: true }];
}

/** A share can recover, but not from half of the requests. */
export function failures(share = LOSS_MAX): Threshold[] {
  return [`rate<${share}`, { threshold: 'rate<0.5', abortOnFail: true, delayAbortEval: '5s' }];
}

/** Thresholds of a constant rate: the p99, the failures, and the requests that were not sent. @param rate requests a second */
export function steady(scenario: string, rate: number, durationMs: number, p99Ms: number): Record<string, Threshold[]> {
  const planned = requestsIn(rate, durationMs);
  return {
    [`http_req_duration{scenario:${scenario}}`]: [`p(99)<${p99Ms}`],
    [`http_req_failed{scenario:${scenario}}`]: failures(),
    [`dropped_iterations{scenario:${scenario}}`]: atMost(planned * LOSS_MAX),
    // Requests that k6 did not begin in time are not counted as dropped.
    [`weir_answers{scenario:${scenario}}`]: [`count>=${Math.floor(planned * (1 - LOSS_MAX))}`],
  };
}

function arrivals({ RATE, DURATION, WARM_UP }: Settings<'RATE' | 'DURATION' | 'WARM_UP'>) {
  return { planned: requestsIn(RATE, WARM_UP) + requestsIn(RATE, DURATION), peak: RATE };
}

/** After a warm-up, a constant rate: a slow answer does not delay the next request, so the latencies hide nothing. */
function warmed(name: string, { RATE, DURATION, WARM_UP, VUS }: Settings<'RATE' | 'DURATION' | 'WARM_UP' | 'VUS'>) {
  return {
    warm_up: constantArrival(RATE, 0, WARM_UP, VUS),
    [name]: constantArrival(RATE, WARM_UP + PAUSE_MS, DURATION, VUS),
  };
}

/** Adds k6's options to a plan. */
export function planOf<P extends Omit<Plan, 'options'>>(
  plan: P,
  scenarios: Record<string, Scenario>,
  thresholds: Record<string, Threshold[]>,
): P & Plan {
  // The summary has the figures of those tags that a threshold names.
  const counted = Object.fromEntries(answerSelectors.map((tags) => [`weir_answers{${tags}}`, ['count>=0']]));
  return { ...plan, options: { ...common, scenarios, thresholds: { ...thresholds, ...counted } } };
}

/** Requests in a time. */
export function requestsIn(rate: number, ms: number): number {
  return Math.floor((rate * ms) / 1_000);
}

/** The plan of load.ts: a constant rate. */
export function planLoad(environment: Environment) {
  const settings = readSettings(environment, { ...arriving, WARM_UP: '5s' });
  const { RATE, DURATION, P99_MS } = settings;
  const target = readTarget(environment);
  const plan = { script: 'load', targets: [target], settings, target, ...arrivals(settings) };
  return planOf(plan, warmed('load', settings), steady('load', RATE, DURATION, P99_MS));
}

/** The plan of mix.ts: several webhooks, sizes and kinds of requests. @param read returns the text of a file */
export function planMix(environment: Environment, read: (path: string) => string) {
  const settings = readSettings(environment, {
    ...arriving,
    WARM_UP: '5s',
    SIZES: '256,1024,16384,131072',
    WEBHOOKS: '',
  });
  const { RATE, DURATION, P99_MS } = settings;
  const targets = readWebhooks(read(settings.WEBHOOKS));
  const plan = { script: 'mix', targets, settings, ...arrivals(settings) };
  return planOf(plan, warmed('mix', settings), steady('mix', RATE, DURATION, P99_MS));
}

/** The plan of agents.ts. An event that is not acknowledged DRAIN_MS after the last request fails the run. */
export function planAgents(environment: Environment) {
  const given = { ...arriving, WARM_UP: '5s', WEIR_CREDENTIAL: '', AGENTS: 4, CLAIM_MAX: 20, DELIVERY_P95_MS: 100 };
  const settings = readSettings(environment, given);
  const { RATE, DURATION, WARM_UP, P99_MS } = settings;
  const senders = warmed('load', settings);
  const untilMs = WARM_UP + PAUSE_MS + DURATION + DRAIN_MS;
  const scenarios = {
    ...Object.fromEntries(Object.entries(senders).map(([name, scenario]) => [name, { ...scenario, exec: 'load' }])),
    consume: { ...closedLoop(settings.AGENTS, 0, untilMs), exec: 'consume' },
  };
  const target = readTarget(environment);
  const thresholds = {
    ...steady('load', RATE, DURATION, P99_MS),
    'http_req_failed{scenario:consume}': failures(),
    weir_acknowledged: [`count>=${requestsIn(RATE, WARM_UP) + requestsIn(RATE, DURATION)}`],
    weir_lost_leases: atMost(0),
    weir_delivery_ms: [`p(95)<${settings.DELIVERY_P95_MS}`],
  };
  return planOf(
    { script: 'agents', targets: [target], settings, target, ...arrivals(settings) },
    scenarios,
    thresholds,
  );
}

/**
 * The plan of overload.ts. Dropped iterations do not fail the run: when all virtual users wait, the server has enough load. A run without
 * refusals fails, because the server was not overloaded. A run in which no event could be looked up fails too.
 *
 * Recovery is a separate scenario, because k6 itself sends late when it lacks processor time. All virtual users have
 * finished before it starts, so it reuses them with the event ids that they received.
 */
export function planOverload(environment: Environment) {
  const own = { RATE_START: 50, RATE_PEAK: 10_000, VUS: 1_500, P99_MS: 2_000, RECOVERY_P99_MS: 60, WEIR_TOKEN: '' };
  const settings = readSettings(environment, { ...sending, ...own });
  const { RATE_START, RATE_PEAK, DURATION, VUS } = settings;
  if (RATE_PEAK <= RATE_START)
    throw new Error(`RATE_PEAK is ${RATE_PEAK}; it must be larger than RATE_START, which is ${RATE_START}`);
  const stage = { target: RATE_PEAK, duration: `${DURATION}ms` };
  const scenarios: Record<string, Scenario> = {
    overload: {
      executor: 'ramping-arrival-rate',
      exec: 'overload',
      startRate: RATE_START,
      timeUnit: '1s',
      stages: [stage, stage],
      preAllocatedVUs: VUS,
      gracefulStop: `${OVERLOAD_TIMEOUT_MS}ms`,
    },
    recovery: { ...constantArrival(RATE_START, 2 * DURATION + REST_MS, DURATION, VUS), exec: 'recovery' },
  };
  const thresholds = {
    weir_refused: ['count>0'],
    weir_broken_contract: atMost(0),
    weir_unanswered: [`rate<${LOSS_MAX}`],
    'http_req_duration{scenario:overload,expected_response:true}': [`p(99)<${settings.P99_MS}`],
    'http_req_duration{scenario:recovery,method:POST}': [`p(99)<${settings.RECOVERY_P99_MS}`],
    'http_req_failed{scenario:recovery}': [`rate<${LOSS_MAX}`],
    ...(settings.WEIR_TOKEN === '' ? {} : { weir_found: ['rate==1'] }),
  };
  const target = readTarget(environment);
  const planned = requestsIn((RATE_START + RATE_PEAK) / 2 + RATE_PEAK + RATE_START, DURATION);
  return planOf(
    { script: 'overload', targets: [target], settings, target, planned, peak: RATE_PEAK },
    scenarios,
    thresholds,
  );
}

/** The lower bound is above 0 percent because k6 reports 0 as the average of no values: a missing measurement must fail too. */
const drift = (percentMax: number) => ['avg>0', `avg<${percentMax}`];

/** The plan of soak.ts: a constant rate for a long time, and readings of the metrics page. */
export function planSoak(environment: Environment) {
  // One second of RATE: a pause of the machine must show as latency, not as a dropped request.
  const own = { DURATION: '30m', VUS: 200, METRICS_URL: 'http://127.0.0.1:9464/metrics' };
  const limits = { LATE_LATENCY_PERCENT_MAX: 150, LATE_MEMORY_PERCENT_MAX: 125 };
  const settings = readSettings(environment, { ...arriving, ...own, ...limits });
  const { RATE, DURATION, VUS, P99_MS } = settings;
  const earlyRequests = Math.floor(requestsIn(RATE, DURATION * EARLY_SHARE) / VUS);
  if (earlyRequests < EARLY_REQUESTS_MIN)
    throw new Error(
      `DURATION is too short: each of ${VUS} VUS would send ${earlyRequests} early requests, and the mean needs at least ${EARLY_REQUESTS_MIN}; raise DURATION or RATE, or lower VUS`,
    );
  const readEveryMs = Math.ceil(DURATION / READINGS);
  const scenarios: Record<string, Scenario> = {
    soak: { ...constantArrival(RATE, 0, DURATION, VUS), exec: 'soak' },
    watch: { ...constantArrival(1, 0, DURATION, 1), timeUnit: `${readEveryMs}ms`, exec: 'watch' },
  };
  const thresholds = {
    http_req_failed: [{ threshold: 'rate==0', abortOnFail: true }],
    'dropped_iterations{scenario:soak}': atMost(requestsIn(RATE, DURATION) * LOSS_MAX),
    'http_req_duration{phase:early}': [`p(99)<${P99_MS}`],
    'http_req_duration{phase:late}': [`p(99)<${P99_MS}`],
    weir_late_latency_percent: drift(settings.LATE_LATENCY_PERCENT_MAX),
    weir_late_memory_percent: drift(settings.LATE_MEMORY_PERCENT_MAX),
    weir_late_connections_percent: drift(CONNECTIONS_PERCENT_MAX),
    weir_queue_events: [`p(99)<${RATE}`],
  };
  const target = readTarget(environment);
  const planned = requestsIn(RATE, DURATION);
  return planOf({ script: 'soak', targets: [target], settings, target, planned, peak: RATE }, scenarios, thresholds);
}

/** A scenario with a constant rate. An iteration is dropped when no virtual user is free. @param rate iterations a second */
export function constantArrival(rate: number, startMs: number, durationMs: number, vus: number) {
  return {
    executor: 'constant-arrival-rate' as const,
    rate,
    timeUnit: '1s',
    startTime: `${startMs}ms`,
    duration: `${durationMs}ms`,
    preAllocatedVUs: vus,
    gracefulStop: `${PAUSE_MS}ms`,
  };
}

/** A scenario in which each virtual user starts its next iteration after the last one. */
export function closedLoop(vus: number, startMs: number, durationMs: number) {
  return {
    executor: 'constant-vus' as const,
    vus,
    startTime: `${startMs}ms`,
    duration: `${durationMs}ms`,
    gracefulStop: `${PAUSE_MS}ms`,
  };
}
