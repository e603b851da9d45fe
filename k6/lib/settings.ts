/**
 * Settings of each script, from the environment. `__ENV` is an argument. Every reader throws an Error that names the first
 * invalid variable.
 */
import { EARLY_SHARE } from './drift.ts';
import {
  type Environment,
  readDurationMs,
  readTarget,
  readUrl,
  risingNumbers,
  type Target,
  wholeNumber,
} from './environment.ts';

interface SmokeSettings extends Target {
  /** Payload limit of the webhook. */
  payloadBytesMax: number;
}

/** Settings of every script that sends load. */
interface Sending extends Target {
  bodyBytes: number;
  durationMs: number;
  /** The run fails when the 99th percentile of the judged requests is not below this limit. */
  p99Ms: number;
}

/** Requests start at a given rate, independent of earlier answers, while a virtual user is free. */
interface Arriving extends Sending {
  /** Virtual users: the maximum number of requests in flight. */
  vus: number;
}

export interface LoadSettings extends Arriving {
  ratePerSecond: number;
}

/** durationMs applies to the ramp, the peak and the recovery, each; p99Ms applies to accepted requests. */
export interface OverloadSettings extends Arriving {
  startPerSecond: number;
  peakPerSecond: number;
  /** Limit of the 99th percentile after the overload. */
  recoveryP99Ms: number;
  /** An API token; null: no events are looked up. */
  token: string | null;
}

export interface SoakSettings extends LoadSettings {
  /** URL of Weir's metrics page. */
  metricsUrl: string;
  /** Limits of late figures in percent of early ones: 100 is equal. */
  lateLatencyPercentMax: number;
  lateMemoryPercentMax: number;
}

export interface AgentsSettings extends LoadSettings {
  /** Base URL of the API for agents, on the server of the webhook. */
  apiUrl: string;
  credential: string;
  /** Virtual users that claim. */
  agents: number;
  /** Deliveries of a claim. */
  claimMax: number;
  /** Limit of the 95th percentile from storing an event to claiming it. */
  deliveryP95Ms: number;
}

/** durationMs is the duration of each step. */
export interface ScaleSettings extends Sending {
  /** Virtual users of each step, increasing. */
  steps: number[];
  /** Number of serving processes, as a label: k6 cannot detect it. */
  workers: number;
  /** File of earlier runs to compare with, one line of JSON each; null: none. */
  runsFile: string | null;
}

export function readSmokeSettings(environment: Environment): SmokeSettings {
  return {
    ...readTarget(environment),
    payloadBytesMax: wholeNumber(environment, 'WEBHOOK_MAX_PAYLOAD_BYTES', 1_048_576, BODY_BYTES_MAX),
  };
}

export function readLoadSettings(environment: Environment): LoadSettings {
  return {
    ...readSending(environment, { duration: '30s', p99Ms: 60 }),
    ratePerSecond: wholeNumber(environment, 'RATE', 200, RATE_MAX),
    vus: wholeNumber(environment, 'VUS', 50, VUS_MAX),
  };
}

export function readOverloadSettings(environment: Environment): OverloadSettings {
  const startPerSecond = wholeNumber(environment, 'RATE_START', 50, RATE_MAX);
  const peakPerSecond = wholeNumber(environment, 'RATE_PEAK', 10_000, RATE_MAX);
  if (peakPerSecond <= startPerSecond)
    throw new Error(`RATE_PEAK is ${peakPerSecond}; it must be larger than RATE_START, which is ${startPerSecond}`);
  return {
    ...readSending(environment, { duration: '30s', p99Ms: 2_000 }),
    startPerSecond,
    peakPerSecond,
    // More than CLIENT_REQUESTS_MAX allows one address to have in flight at one process.
    vus: wholeNumber(environment, 'VUS', 1_500, VUS_MAX),
    recoveryP99Ms: wholeNumber(environment, 'RECOVERY_P99_MS', 60, P99_MS_MAX),
    token: environment.WEIR_TOKEN || null,
  };
}

export function readSoakSettings(environment: Environment): SoakSettings {
  const settings = {
    ...readSending(environment, { duration: '30m', p99Ms: 60 }),
    ratePerSecond: wholeNumber(environment, 'RATE', 200, RATE_MAX),
    // One second of RATE: a pause of the machine must show as latency, not as a dropped request.
    vus: wholeNumber(environment, 'VUS', 200, VUS_MAX),
    metricsUrl: readUrl(environment, 'METRICS_URL', 'http://127.0.0.1:9464/metrics'),
    lateLatencyPercentMax: wholeNumber(environment, 'LATE_LATENCY_PERCENT_MAX', 150, PERCENT_MAX),
    lateMemoryPercentMax: wholeNumber(environment, 'LATE_MEMORY_PERCENT_MAX', 125, PERCENT_MAX),
  };
  const { ratePerSecond, durationMs, vus } = settings;
  const earlyRequests = Math.floor((ratePerSecond * durationMs * EARLY_SHARE) / 1_000 / vus);
  if (earlyRequests < EARLY_REQUESTS_MIN)
    throw new Error(
      `DURATION is too short: each of ${vus} VUS would send ${earlyRequests} early requests, and the mean needs at least ${EARLY_REQUESTS_MIN}; raise DURATION or RATE, or lower VUS`,
    );
  return settings;
}

export function readAgentsSettings(environment: Environment): AgentsSettings {
  const credential = environment.WEIR_CREDENTIAL ?? '';
  if (credential === '')
    throw new Error('WEIR_CREDENTIAL is unset; it must be the credential of an agent of the webhook of WEBHOOK_URL');
  const settings = readLoadSettings(environment);
  return {
    ...settings,
    apiUrl: settings.url.replace(/\/in\/[^/]+$/, '/api/v1/agent'),
    credential,
    agents: wholeNumber(environment, 'AGENTS', 4, VUS_MAX),
    claimMax: wholeNumber(environment, 'CLAIM_MAX', 20, CLAIM_MAX),
    deliveryP95Ms: wholeNumber(environment, 'DELIVERY_P95_MS', 100, P99_MS_MAX),
  };
}

export function readScaleSettings(environment: Environment): ScaleSettings {
  return {
    ...readSending(environment, { duration: '20s', p99Ms: 1_000 }),
    steps: risingNumbers(environment, 'STEPS', '16,64,256', VUS_MAX),
    workers: wholeNumber(environment, 'WORKERS', null, 1_024),
    runsFile: environment.RUNS || null,
  };
}

/** URL on the same server of a webhook that does not exist. */
export function unknownWebhookUrl(url: string): string {
  return url.replace(/[^/]+$/, '00000000-0000-4000-8000-000000000000');
}

/** API URL of an event on the server that has the webhook URL `url`. */
export function eventUrl(url: string, eventId: string): string {
  return url.replace(/\/in\/[^/]+$/, `/api/v1/events/${eventId}`);
}

const BODY_BYTES_MAX = 268_435_456;
const RATE_MAX = 1_000_000;
const VUS_MAX = 100_000;
const P99_MS_MAX = 60_000;
const PERCENT_MAX = 10_000;
/** Weir's limit of a claim. */
const CLAIM_MAX = 1_000;
/** Requests of each virtual user. The mean of few requests is imprecise, and a ratio to an imprecise mean is too large on average. */
const EARLY_REQUESTS_MIN = 50;

function readSending(environment: Environment, fallback: { duration: string; p99Ms: number }): Sending {
  return {
    ...readTarget(environment),
    bodyBytes: wholeNumber(environment, 'BODY_BYTES', 1024, BODY_BYTES_MAX),
    durationMs: readDurationMs(environment, 'DURATION', fallback.duration),
    p99Ms: wholeNumber(environment, 'P99_MS', fallback.p99Ms, P99_MS_MAX),
  };
}
