/** Reads environment variables. An invalid value throws an Error that names the variable and the fix. An empty value counts as unset. */
import { defaultScheme, isSupported, type Scheme } from './signing.ts';

export type Environment = Record<string, string | undefined>;

export interface Target {
  /** Full URL of the webhook. */
  url: string;
  secret: string;
  scheme: Scheme;
}

/** Reads WEBHOOK_URL and WEIR_SECRET, which every script requires, and WEIR_SCHEME. */
export function readTarget(environment: Environment): Target {
  const url = environment.WEBHOOK_URL ?? '';
  // k6 has no URL class.
  if (!/^https?:\/\/[^/?#\s]+\/in\/[^/?#\s]+$/.test(url))
    throw new Error(
      `WEBHOOK_URL is ${shown(url)}; it must be the full URL of the webhook, such as http://127.0.0.1:8080/in/<webhook id>`,
    );
  const secret = environment.WEIR_SECRET ?? '';
  if (secret === '') throw new Error('WEIR_SECRET is unset; it must be the secret of the webhook of WEBHOOK_URL');
  return { url, secret, scheme: readScheme(environment) };
}

/** Reads WEIR_SCHEME: JSON of a definition, or of a scheme with a definition, as `weir scheme show NAME --json` prints it. */
function readScheme(environment: Environment): Scheme {
  const given = environment.WEIR_SCHEME ?? '';
  if (given === '') return defaultScheme;
  const scheme = parsedScheme(given);
  if (scheme === null)
    throw new Error('WEIR_SCHEME is not a signature scheme; give the output of: weir scheme show NAME --json');
  if (!isSupported(scheme))
    throw new Error(
      `WEIR_SCHEME has the algorithm ${scheme.algorithm}; supported: hmac-sha256, hmac-sha1 and hmac-sha512, with the time in a header`,
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

/** Reads a duration in k6's format; returns milliseconds. */
export function readDurationMs(environment: Environment, name: string, fallback: string): number {
  const given = environment[name] || fallback;
  const parts = /^(\d{1,9}(ms|s|m|h))+$/.test(given) ? given.match(/\d+[a-z]+/g)! : [];
  const total = parts.reduce((sum, part) => sum + Number.parseInt(part, 10) * UNIT_MS[part.replace(/\d+/, '')]!, 0);
  if (total < 1 || total > DURATION_MAX_MS)
    throw new Error(
      `${name} is ${shown(given)}; allowed: a time as k6 writes it, like 30s, 5m or 1h30m, of at most 720h`,
    );
  return total;
}

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const DURATION_MAX_MS = 720 * 3_600_000;

/** Reads a whole number from 1 to `max`. Without a fallback, the variable is required. */
export function wholeNumber(environment: Environment, name: string, fallback: number | null, max: number): number {
  return parseWholeNumber(name, environment[name] || String(fallback ?? ''), max);
}

/** Reads a comma-separated list of increasing whole numbers. */
export function risingNumbers(environment: Environment, name: string, fallback: string, max: number): number[] {
  const given = environment[name] || fallback;
  const numbers = given.split(',').map((one) => parseWholeNumber(name, one.trim(), max));
  if (numbers.some((one, i) => i > 0 && one <= numbers[i - 1]!))
    throw new Error(`${name} is ${shown(given)}; each number must be larger than the one before`);
  return numbers;
}

/** Reads an http or https URL. */
export function readUrl(environment: Environment, name: string, fallback: string): string {
  const given = environment[name] || fallback;
  if (!/^https?:\/\/[^/?#\s]+(\/\S*)?$/.test(given))
    throw new Error(`${name} is ${shown(given)}; it must be a full address, as ${fallback}`);
  return given;
}

function parseWholeNumber(name: string, given: string, max: number): number {
  const value = /^\d{1,9}$/.test(given) ? Number(given) : 0;
  if (value < 1 || value > max) throw new Error(`${name} is ${shown(given)}; allowed: a whole number from 1 to ${max}`);
  return value;
}

function shown(value: string): string {
  return value === '' ? 'unset' : JSON.stringify(value);
}
