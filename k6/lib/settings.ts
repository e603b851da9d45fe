/** What the scripts are told by the environment. `__ENV` is an argument; an empty value counts as unset. */

export type Environment = Record<string, string | undefined>;

export interface Target {
  /** Full address of the endpoint. */
  url: string;
  secret: string;
}

export interface SmokeSettings extends Target {
  /** The cap of that endpoint. */
  payloadBytesMax: number;
}

export interface LoadSettings extends Target {
  /** Requests that begin in each second, whether or not earlier ones were answered. */
  ratePerSecond: number;
  /** As k6 writes it: 30s, 5m, 1h30m. */
  duration: string;
  /** Virtual users: requests under way at a time, at most. */
  vus: number;
  bodyBytes: number;
}

/** Settings of smoke.ts. Throws an Error that names the first variable which does not do. */
export function readSmokeSettings(environment: Environment): SmokeSettings {
  return {
    ...readTarget(environment),
    payloadBytesMax: wholeNumber(environment, 'WEBHOOK_MAX_PAYLOAD_BYTES', 1_048_576, 268_435_456),
  };
}

/** Settings of load.ts. Throws an Error that names the first variable which does not do. */
export function readLoadSettings(environment: Environment): LoadSettings {
  return {
    ...readTarget(environment),
    ratePerSecond: wholeNumber(environment, 'RATE', 200, 1_000_000),
    duration: readDuration(environment),
    vus: wholeNumber(environment, 'VUS', 50, 100_000),
    bodyBytes: wholeNumber(environment, 'BODY_BYTES', 1024, 268_435_456),
  };
}

/** The same server's address of a webhook that nobody ever made. */
export function unknownWebhookUrl(url: string): string {
  return url.replace(/[^/]+$/, '00000000-0000-4000-8000-000000000000');
}

function readTarget(environment: Environment): Target {
  const url = environment.WEIR_URL ?? '';
  // k6 has no URL class of its own.
  if (!/^https?:\/\/[^/?#\s]+\/in\/[^/?#\s]+$/.test(url))
    throw new Error(
      `WEIR_URL is ${shown(url)}; it must be the endpoint's full address, as http://127.0.0.1:8080/in/<webhook id>`,
    );
  const secret = environment.WEIR_SECRET ?? '';
  if (secret === '') throw new Error('WEIR_SECRET is unset; it must be the secret of the webhook that WEIR_URL names');
  return { url, secret };
}

function readDuration(environment: Environment): string {
  const duration = environment.DURATION || '30s';
  if (!/^(\d+(ms|s|m|h))+$/.test(duration) || !/[1-9]/.test(duration))
    throw new Error(`DURATION is ${shown(duration)}; allowed: a time as k6 writes it, like 30s, 5m or 1h30m`);
  return duration;
}

function wholeNumber(environment: Environment, name: string, fallback: number, max: number): number {
  const given = environment[name] || String(fallback);
  const value = /^\d{1,9}$/.test(given) ? Number(given) : 0;
  if (value < 1 || value > max) throw new Error(`${name} is ${shown(given)}; allowed: a whole number from 1 to ${max}`);
  return value;
}

function shown(value: string): string {
  return value === '' ? 'unset' : JSON.stringify(value);
}
