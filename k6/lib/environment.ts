/** Reading one variable of the environment, or an Error that names it and the mend. An empty value counts as unset. */

export type Environment = Record<string, string | undefined>;

export interface Target {
  /** Full address of the endpoint. */
  url: string;
  secret: string;
}

/** WEIR_URL and WEIR_SECRET, which every script needs. */
export function readTarget(environment: Environment): Target {
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

/** A time as k6 writes it, in milliseconds. */
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

/** From 1 to `max`; without a fallback the variable has to be given. */
export function wholeNumber(environment: Environment, name: string, fallback: number | null, max: number): number {
  return parseWholeNumber(name, environment[name] || String(fallback ?? ''), max);
}

/** A comma list of whole numbers, each larger than the one before. */
export function risingNumbers(environment: Environment, name: string, fallback: string, max: number): number[] {
  const given = environment[name] || fallback;
  const numbers = given.split(',').map((one) => parseWholeNumber(name, one.trim(), max));
  if (numbers.some((one, i) => i > 0 && one <= numbers[i - 1]!))
    throw new Error(`${name} is ${shown(given)}; each number must be larger than the one before`);
  return numbers;
}

/** An address of http or https. */
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
