/**
 * What each script is told by the environment. `__ENV` is an argument; every reader throws an Error that names the first
 * variable which does not do.
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

export interface SmokeSettings extends Target {
  /** The cap of that endpoint. */
  payloadBytesMax: number;
}

/** What every script that sends load is told. */
interface Sending extends Target {
  bodyBytes: number;
  durationMs: number;
  /** Fails the run when the 99th percentile of what it judges is not below. */
  p99Ms: number;
}

/** Requests begin at a rate, whether or not earlier ones were answered, as long as a virtual user is free. */
interface Arriving extends Sending {
  /** Virtual users: requests under way at a time, at most. */
  vus: number;
}

export interface LoadSettings extends Arriving {
  ratePerSecond: number;
}

/** durationMs is that of the way up, of the peak and of the recovery, each; p99Ms that of accepted requests. */
export interface OverloadSettings extends Arriving {
  startPerSecond: number;
  peakPerSecond: number;
  /** The 99th percentile after the overload has to be below. */
  recoveryP99Ms: number;
  /** An API token; null: nothing is looked up afterwards. */
  token: string | null;
}

export interface SoakSettings extends LoadSettings {
  /** Weir's page of metrics. */
  metricsUrl: string;
  /** How late figures may compare with early ones: 100 is the same. */
  lateLatencyPercentMax: number;
  lateMemoryPercentMax: number;
}

/** durationMs is that of each step. */
export interface ScaleSettings extends Sending {
  /** Virtual users of each step, rising. */
  steps: number[];
  /** Serving processes of the server: a label, which k6 cannot know by itself. */
  workers: number;
  /** A file of earlier runs, one line of JSON each, to compare with; null: none. */
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
    // More than CLIENT_REQUESTS_MAX lets one address have under way at one process.
    vus: wholeNumber(environment, 'VUS', 1_500, VUS_MAX),
    recoveryP99Ms: wholeNumber(environment, 'RECOVERY_P99_MS', 60, P99_MS_MAX),
    token: environment.WEIR_TOKEN || null,
  };
}

export function readSoakSettings(environment: Environment): SoakSettings {
  const settings = {
    ...readSending(environment, { duration: '30m', p99Ms: 60 }),
    ratePerSecond: wholeNumber(environment, 'RATE', 200, RATE_MAX),
    // A second of RATE: a pause of the machine is to be seen as latency, not as a request that was never sent.
    vus: wholeNumber(environment, 'VUS', 200, VUS_MAX),
    metricsUrl: readUrl(environment, 'METRICS_URL', 'http://127.0.0.1:9464/metrics'),
    lateLatencyPercentMax: wholeNumber(environment, 'LATE_LATENCY_PERCENT_MAX', 150, PERCENT_MAX),
    lateMemoryPercentMax: wholeNumber(environment, 'LATE_MEMORY_PERCENT_MAX', 125, PERCENT_MAX),
  };
  const { ratePerSecond, durationMs, vus } = settings;
  const earlyRequests = Math.floor((ratePerSecond * durationMs * EARLY_SHARE) / 1_000 / vus);
  if (earlyRequests < EARLY_REQUESTS_MIN)
    throw new Error(
      `DURATION is too short: each of ${vus} VUS would send ${earlyRequests} early requests, and ${EARLY_REQUESTS_MIN} make a mean that late ones can be compared with; raise DURATION or RATE, or lower VUS`,
    );
  return settings;
}

export function readScaleSettings(environment: Environment): ScaleSettings {
  return {
    ...readSending(environment, { duration: '20s', p99Ms: 1_000 }),
    steps: risingNumbers(environment, 'STEPS', '16,64,256', VUS_MAX),
    workers: wholeNumber(environment, 'WORKERS', null, 1_024),
    runsFile: environment.RUNS || null,
  };
}

/** The same server's address of a webhook that nobody ever made. */
export function unknownWebhookUrl(url: string): string {
  return url.replace(/[^/]+$/, '00000000-0000-4000-8000-000000000000');
}

/** The address of an event in the API of the server whose endpoint is `url`. */
export function eventUrl(url: string, eventId: string): string {
  return url.replace(/\/in\/[^/]+$/, `/api/v1/events/${eventId}`);
}

const BODY_BYTES_MAX = 268_435_456;
const RATE_MAX = 1_000_000;
const VUS_MAX = 100_000;
const P99_MS_MAX = 60_000;
const PERCENT_MAX = 10_000;
/** Of a virtual user. The mean of a few is rough, and the ratio to a rough mean is too large on average. */
const EARLY_REQUESTS_MIN = 50;

function readSending(environment: Environment, fallback: { duration: string; p99Ms: number }): Sending {
  return {
    ...readTarget(environment),
    bodyBytes: wholeNumber(environment, 'BODY_BYTES', 1024, BODY_BYTES_MAX),
    durationMs: readDurationMs(environment, 'DURATION', fallback.duration),
    p99Ms: wholeNumber(environment, 'P99_MS', fallback.p99Ms, P99_MS_MAX),
  };
}
