/**
 * Settings of the scripts, from the environment. An invalid value throws an Error that names the variable and what is allowed; an empty value
 * counts as unset. `__ENV` is an argument, so that any runtime can test it.
 */
import { defaultScheme, isSupported, type Scheme } from './signing.ts';

export type Environment = Record<string, string | undefined>;

/** A webhook and what signs its requests. */
export interface Target {
  /** Full URL of the webhook. */
  url: string;
  secret: string;
  scheme: Scheme;
}

const BODY_BYTES_MAX = 268_435_456;
const RATE_MAX = 1_000_000;
const VUS_MAX = 100_000;
const LATENCY_MS_MAX = 60_000;
const PERCENT_MAX = 10_000;
const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const DURATION_MS_MAX = 720 * 3_600_000;

/** How each variable is read. A time is returned in milliseconds. */
const parsers = {
  /** Requests a second. */
  RATE: wholeNumber(RATE_MAX),
  RATE_START: wholeNumber(RATE_MAX),
  RATE_PEAK: wholeNumber(RATE_MAX),
  /** The rate of each step. */
  RATES: risingNumbers(RATE_MAX),
  /** Virtual users of each step. */
  STEPS: risingNumbers(VUS_MAX),
  /** Virtual users: the maximum number of requests in progress. */
  VUS: wholeNumber(VUS_MAX),
  DURATION: durationMs,
  WARM_UP: durationMs,
  BODY_BYTES: wholeNumber(BODY_BYTES_MAX),
  /** Body sizes of the mix. */
  SIZES: risingNumbers(BODY_BYTES_MAX),
  WEBHOOK_MAX_PAYLOAD_BYTES: wholeNumber(BODY_BYTES_MAX),
  /** The run fails when the 99th percentile of the judged requests is not below this limit. */
  P99_MS: wholeNumber(LATENCY_MS_MAX),
  /** The same after an overload. */
  RECOVERY_P99_MS: wholeNumber(LATENCY_MS_MAX),
  /** Limit of the 95th percentile from storing an event to claiming it. */
  DELIVERY_P95_MS: wholeNumber(LATENCY_MS_MAX),
  /** Limits of late figures in percent of early ones: 100 is equal. */
  LATE_LATENCY_PERCENT_MAX: wholeNumber(PERCENT_MAX),
  LATE_MEMORY_PERCENT_MAX: wholeNumber(PERCENT_MAX),
  /** Virtual users that claim, and deliveries of a claim (1,000 is Weir's limit). */
  AGENTS: wholeNumber(VUS_MAX),
  CLAIM_MAX: wholeNumber(1_000),
  /** Number of serving processes, as a label: k6 cannot detect it. */
  WORKERS: wholeNumber(1_024),
  /** Credential of an agent of the webhook. */
  WEIR_CREDENTIAL: required('the credential of an agent of the webhook of WEBHOOK_URL'),
  /** An API token; empty: no events are looked up. */
  WEIR_TOKEN: text,
  /** URL of Weir's metrics page; empty: not read. */
  METRICS_URL: address,
  /** Files of JSON lines: webhooks of the mix, and earlier runs to compare with. */
  WEBHOOKS: required('a file with a line of JSON for each webhook'),
  RUNS: text,
  /** Labels of the summary, and the file that receives it as JSON. */
  COMMIT: text,
  MACHINE: text,
  SUMMARY: text,
};

type Name = keyof typeof parsers;

export type Settings<N extends Name> = { [name in N]: ReturnType<(typeof parsers)[name]> };

/** Reads the variables that have a fallback here; a number without one, '', is required. */
export function readSettings<N extends Name>(
  environment: Environment,
  fallbacks: Record<N, string | number>,
): Settings<N> {
  const names = Object.keys(fallbacks) as N[];
  const values = names.map((name) => [name, parsers[name](name, environment[name] || String(fallbacks[name]))]);
  return Object.fromEntries(values);
}

/** Reads WEBHOOK_URL and WEIR_SECRET, and WEIR_SCHEME. */
export function readTarget({ WEBHOOK_URL: url = '', WEIR_SECRET: secret = '', WEIR_SCHEME }: Environment): Target {
  // k6 has no URL class.
  if (!/^https?:\/\/[^/?#\s]+\/in\/[^/?#\s]+$/.test(url))
    throw new Error(
      `WEBHOOK_URL is ${shown(url)}; it must be the full URL of the webhook, such as http://127.0.0.1:8080/in/<webhook id>`,
    );
  if (secret === '') throw new Error('WEIR_SECRET is unset; it must be the secret of the webhook of WEBHOOK_URL');
  return { url, secret, scheme: readScheme('WEIR_SCHEME', WEIR_SCHEME || JSON.stringify(defaultScheme)) };
}

/** Parses a scheme that k6 can sign by. @param json a definition, or a scheme with one, as `weir scheme show NAME --json` prints it */
export function readScheme(name: string, json: string): Scheme {
  const scheme = parsedScheme(json);
  if (scheme === null)
    throw new Error(`${name} is not a signature scheme; give the output of: weir scheme show NAME --json`);
  if (!isSupported(scheme))
    throw new Error(
      `${name} has the algorithm ${scheme.algorithm}; supported: hmac-sha256, hmac-sha1 and hmac-sha512, with the time in a header`,
    );
  return scheme;
}

function parsedScheme(json: string): Scheme | null {
  try {
    const value = JSON.parse(json);
    const scheme = value.definition ?? value;
    return typeof scheme.algorithm === 'string' ? scheme : null;
  } catch {
    return null;
  }
}

function wholeNumber(max: number) {
  return (name: string, given: string): number => {
    const value = /^\d{1,9}$/.test(given) ? Number(given) : 0;
    if (value < 1 || value > max)
      throw new Error(`${name} is ${shown(given)}; allowed: a whole number from 1 to ${max}`);
    return value;
  };
}

function risingNumbers(max: number) {
  return (name: string, given: string): number[] => {
    const numbers = given.split(',').map((one) => wholeNumber(max)(name, one.trim()));
    if (numbers.some((one, i) => i > 0 && one <= numbers[i - 1]!))
      throw new Error(`${name} is ${shown(given)}; each number must be larger than the one before`);
    return numbers;
  };
}

/** A time in k6's format. */
function durationMs(name: string, given: string): number {
  const parts = /^(\d{1,9}(ms|s|m|h))+$/.test(given) ? given.match(/\d+[a-z]+/g)! : [];
  const total = parts.reduce((sum, part) => sum + Number.parseInt(part, 10) * UNIT_MS[part.replace(/\d+/, '')]!, 0);
  if (total < 1 || total > DURATION_MS_MAX)
    throw new Error(
      `${name} is ${shown(given)}; allowed: a time as k6 writes it, like 30s, 5m or 1h30m, of at most 720h`,
    );
  return total;
}

function address(name: string, given: string): string {
  if (given !== '' && !/^https?:\/\/[^/?#\s]+(\/\S*)?$/.test(given))
    throw new Error(`${name} is ${shown(given)}; it must be a full address, as http://127.0.0.1:9464/metrics`);
  return given;
}

function text(_name: string, given: string): string {
  return given;
}

function required(what: string) {
  return (name: string, given: string): string => {
    if (given === '') throw new Error(`${name} is unset; it must be ${what}`);
    return given;
  };
}

function shown(value: string): string {
  return value === '' ? 'unset' : JSON.stringify(value);
}

/** URL on the same server of a webhook that does not exist. */
export function unknownWebhookUrl(url: string): string {
  return url.replace(/[^/]+$/, '00000000-0000-4000-8000-000000000000');
}

/** The target with a secret that Weir refuses. Digits at the end change a text, hex or base64 secret; zero bytes would not change an HMAC. */
export function withOtherSecret(target: Target): Target {
  return { ...target, secret: `${target.secret}1111` };
}

/** URL of the API on the server that has the webhook URL `url`. */
export function apiUrl(url: string, path: string): string {
  return url.replace(/\/in\/[^/]+$/, `/api/v1/${path}`);
}
