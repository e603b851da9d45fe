/** Building blocks of the rows of the settings table: accepted values and whole rows of one kind. */
import { z } from 'zod';
import { isSafeUrl } from '../net/loopback.ts';

const isTrimmed = (text: string) => text.trim() === text;
/** A text that is not empty and has no white space at its ends. */
export const trimmedText = z.string().min(1).refine(isTrimmed);
/** A list of texts separated by commas. White space around an item and empty items are dropped. */
export const commaList = z.string().transform((list) =>
  list
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== ''),
);

/** One row: the accepted values (`allowed` describes them in text), the default and the meaning. */
export interface Setting {
  schema: z.ZodType<unknown, string>;
  /** The default, as written in the environment; absent: unset. */
  fallback?: string;
  /** Shown in place of `fallback` if the default is computed. */
  fallbackShown?: string;
  allowed: string;
  meaning: string;
  secret?: true;
  /** The primary reads it once: HUP refuses a change, which needs a restart of the service. Other changes apply to new processes. */
  fixed?: true;
}

/** A row without its meaning: what the rows of one kind have in common. */
type Kind = Omit<Setting, 'meaning'>;

/** A row is made of its kind and, in a second call, its meaning. */
export const row =
  <const Row extends Kind>(kind: Row) =>
  (meaning: string) => ({ ...kind, meaning });

/** A row of a setting that the primary reads once. */
export const fixed = <const Row extends Kind>(kind: Row) => row({ ...kind, fixed: true as const });

/** A row of a setting whose value is never shown. */
export const secret = <const Row extends Kind>(kind: Row) => row({ ...kind, secret: true as const });

/** A whole number without a default. Both limits are allowed values. */
export const optionalCount = (min: number, max: number) => ({
  schema: z
    .string()
    .regex(/^\d+$/)
    .transform(Number)
    .refine((value) => value >= min && value <= max),
  allowed: `a whole number from ${min} to ${max}`,
});

/** A whole number with a default. */
export const count = (fallback: number, min: number, max: number) => ({
  ...optionalCount(min, max),
  fallback: String(fallback),
});

/** A text without a default. @param allowed describes the accepted values */
export const optionalText = (allowed: string) => ({ schema: trimmedText, allowed });

export const listenHost = { ...optionalText('an IP address or a host name'), fallback: '127.0.0.1' };

export const origin = { schema: z.string().refine(isOrigin), allowed: 'an http or https origin without a path' };

export const targetUrl = {
  schema: trimmedText.refine(isTargetUrl),
  allowed: 'an http or https URL without user, password and fragment, at most 2000 characters',
};

/** `true` or `false`. */
export const flag = (fallback: boolean) => ({
  schema: z.enum(['true', 'false']).transform((value) => value === 'true'),
  fallback: String(fallback),
  allowed: 'true or false',
});

/** One of these names. */
export const oneOf = <const Names extends readonly [string, ...string[]]>(names: Names, fallback: Names[number]) => ({
  schema: z.enum(names),
  fallback,
  allowed: `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`,
});

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

/** A redis:// or rediss:// URL. Its path, if any, is the number of a database. */
export function isRedisUrl(value: string): boolean {
  const url = tryUrl(value);
  if (url === null || !/^rediss?:$/.test(url.protocol) || url.hostname === '') return false;
  return /^(\/\d{0,5})?$/.test(url.pathname) && decoded(url.username + url.password) !== null;
}

/** An http or https URL of up to 2,000 characters, without credentials and fragment. */
function isTargetUrl(value: string): boolean {
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

/** Names and percent-encoded values, as in `a=1,b=2`. Decoded, a value has the characters of a header field. */
export function isHeaderList(value: string): boolean {
  return value
    .split(',')
    .every(
      (pair) =>
        /^\s*[\w!#$&'*+.^`|~-]+\s*=\s*(?:[\x21-\x24\x26-\x2b\x2d-\x7e]|%[0-9a-f]{2})*\s*$/i.test(pair) &&
        /^[\t\x20-\x7e\x80-\xff]*$/.test(decoded(pair) ?? '\0'),
    );
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

/** Decodes percent escapes. Null: an escape is malformed, or its bytes are not UTF-8. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** Base64 of 32 bytes. */
export function isKey(value: string): boolean {
  return /^[A-Za-z0-9+/]{43}=$/.test(value) && Buffer.from(value, 'base64').length === 32;
}
