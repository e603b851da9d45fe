/** Building blocks of the rows of the settings table: accepted values and whole rows of one kind. */
import { z } from 'zod';
import { isSafeUrl } from '../net/loopback.ts';

export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d+$/)
    .transform(Number)
    .refine((value) => value >= min && value <= max);

export const origin = z.string().refine(isOrigin);
const isTrimmed = (text: string) => text.trim() === text;
export const text = z.string().min(1).refine(isTrimmed);
export const commaList = z.string().transform((list) =>
  list
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== ''),
);

/** One row: the accepted values (`allowed` describes them in text), the default and the meaning. */
export interface Setting {
  schema: z.ZodType<unknown, string>;
  /** The default, as written in the environment; null: unset. */
  fallback: string | null;
  /** Shown in place of `fallback` if the default is computed. */
  fallbackShown?: string;
  allowed: string;
  meaning: string;
  secret?: true;
  /** The primary reads it once: HUP refuses a change, which needs a restart of the service. Other changes apply to new processes. */
  fixed?: true;
}

export const count = (fallback: number, min: number, max: number, meaning: string) => ({
  schema: wholeNumber(min, max),
  fallback: String(fallback),
  allowed: `a whole number from ${min} to ${max}`,
  meaning,
});

export const optionalText = (allowed: string, meaning: string) => ({ schema: text, fallback: null, allowed, meaning });

export const MEMORY_MIN = 64 * 1024 ** 2;
export const MEMORY_MAX = 1024 ** 4;

/** Scheme, host and port only, as browsers send it in Origin. */
export function isOrigin(value: string): boolean {
  const url = tryUrl(value);
  // Reject wildcards: a URL accepts `*` in the host name, but a setting must name one origin.
  return url !== null && /^https?:$/.test(url.protocol) && url.origin === value && !value.includes('*');
}

/** Rejects URLs with parts that point discovery away from the issuer, and plain HTTP to hosts other than loopback. */
export function isIssuer(value: string): boolean {
  const url = tryUrl(value);
  if (url === null || /[?#@]|\/\.well-known\//.test(value)) return false;
  return isSafeUrl(url);
}

export function isRedisUrl(value: string): boolean {
  const url = tryUrl(value);
  return url !== null && /^rediss?:$/.test(url.protocol) && url.hostname !== '';
}

/** An http or https URL of up to 2,000 characters, without credentials and fragment. */
export function isAlertUrl(value: string): boolean {
  const url = tryUrl(value);
  if (url === null || value.length > 2_000 || value.includes('#')) return false;
  return /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}

/** Values of OTEL_TRACES_SAMPLER. */
export const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;
export type Sampler = (typeof samplers)[number];

/** Names and percent-encoded values, as in `a=1,b=2`. */
export function isHeaderList(value: string): boolean {
  return value
    .split(',')
    .every((pair) => /^\s*[\w!#$&'*+.^`|~-]+\s*=\s*(?:[\x21-\x24\x26-\x2b\x2d-\x7e]|%[0-9a-f]{2})*\s*$/i.test(pair));
}

/** A secret of Standard Webhooks: base64 of 24 to 64 bytes, with or without `whsec_`. */
export function isAlertSecret(value: string): boolean {
  const base64 = value.replace(/^whsec_/, '');
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 && bytes.length >= 24 && bytes.length <= 64;
}

function tryUrl(value: string): URL | null {
  try {
    return new URL(value);
  } catch {
    return null;
  }
}

/** Base64 of 32 bytes. */
export function isKey(value: string): boolean {
  return /^[A-Za-z0-9+/]{43}=$/.test(value) && Buffer.from(value, 'base64').length === 32;
}
