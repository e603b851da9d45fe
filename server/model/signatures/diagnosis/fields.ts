/** Finds the request headers that contain a signature, or look like one. */
import { defaultSignatureHeaders, parseDigest } from '../signature.ts';
import type { RejectionReason } from './reasons.ts';
import { type NamedScheme, namedHeaderOf, namedSchemeOf } from './schemes.ts';

export interface SignatureField {
  name: string;
  value: string;
  /** True for a signature header that the webhook reads. */
  expected: boolean;
  /** The value, parsed leniently. */
  loose: LooseSignature;
  /** The scheme that header and value match, if the scheme has its own reason. */
  named: NamedScheme | null;
  /** True if name or value clearly indicate a signature; otherwise the value is just some digest. */
  likely: boolean;
}

const signatureName = /signature|hmac|digest|^x-hub-/;

/**
 * Returns the signature fields in request order.
 * @param headers alternating names in lower case and values.
 * @param configured the webhook's `signature_header`, in lower case.
 */
export function signatureFields(headers: readonly string[], configured: string | null): SignatureField[] {
  const expectedNames: readonly string[] = configured === null ? defaultSignatureHeaders : [configured];
  const fields: SignatureField[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i]!, headers[i + 1]!];
    const expected = expectedNames.includes(name);
    const loose = readLoosely(value);
    const named = namedSchemeOf(name, value);
    const claims = loose.digest !== null && loose.algorithm === 'sha256';
    const likely = expected || named !== null || (claims && (loose.fault === null || signatureName.test(name)));
    if (likely || claims || namedHeaderOf(name) !== null) fields.push({ name, value, expected, loose, named, likely });
  }
  return fields;
}

type Algorithm = 'sha256' | 'sha1' | 'sha384' | 'sha512' | 'md5';

interface LooseSignature {
  /** Null: the form is correct. */
  fault: RejectionReason | null;
  algorithm: Algorithm;
  /** Null: no digest was recognized. */
  digest: Buffer | null;
}

/** Algorithm by number of hex digits. SHA-256 is absent, because it is the expected algorithm. */
const otherAlgorithms: Readonly<Record<number, Algorithm>> = { 32: 'md5', 40: 'sha1', 96: 'sha384', 128: 'sha512' };
const BASE64_256 = /^(?:sha256=)?([A-Za-z0-9+/_-]{43})=?$/;
const OTHER_PREFIX = /^(?:hmac-?)?(md5|sha-?1|sha-?384|sha-?512)[=:]/i;

/** Parses a header value as a signature in any known form. */
function readLoosely(value: string): LooseSignature {
  const exact = parseDigest(value);
  if (exact !== null) return sha256(null, Buffer.from(exact));
  const bare = value.trim();
  if (bare === '') return sha256('malformed_empty');
  if (/^[0-9a-f]{64}$/i.test(bare)) return sha256('malformed_no_prefix', Buffer.from(bare, 'hex'));
  const hex = /^(?:hmac-?)?sha-?256\s*[=:]\s*([0-9a-f]{64})$/i.exec(bare)?.[1];
  if (hex !== undefined) return sha256('malformed_prefix', Buffer.from(hex, 'hex'));
  const base64 = BASE64_256.exec(bare)?.[1];
  if (base64 !== undefined) return sha256('malformed_base64', Buffer.from(base64, 'base64'));
  const other = readOther(bare);
  if (other !== null) return other;
  const inside = /sha256=\s*([0-9a-f]{64})(?![0-9a-f])/i.exec(bare)?.[1];
  if (inside !== undefined) return sha256('malformed_around', Buffer.from(inside, 'hex'));
  return sha256(/^(sha256=)?[0-9a-f]+$/i.test(bare) || bare === 'sha256=' ? 'malformed_length' : 'malformed');
}

/** Recognizes a signature of another algorithm by its prefix or length. */
function readOther(bare: string): LooseSignature | null {
  const named = OTHER_PREFIX.exec(bare);
  const digits = named === null ? bare : bare.slice(named[0].length);
  const algorithm = /^[0-9a-f]+$/i.test(digits) ? otherAlgorithms[digits.length] : undefined;
  if (algorithm !== undefined) return { fault: 'malformed_algorithm', algorithm, digest: Buffer.from(digits, 'hex') };
  return named === null ? null : sha256('malformed_algorithm');
}

function sha256(fault: RejectionReason | null, digest: Buffer | null = null): LooseSignature {
  return { fault, algorithm: 'sha256', digest };
}

/** Describes the form of a signature without revealing its value: `sha256= and 64 hex digits`. */
export function shapeOf(value: string): string {
  const prefix = /^(?:hmac-?)?(?:sha-?\d{1,3}|md5|v\d)[=:,]/i.exec(value)?.[0] ?? '';
  const rest = value.slice(prefix.length);
  if (value === '') return 'empty';
  const kind = /^[0-9a-f]+$/i.test(rest)
    ? 'hex digits'
    : /^[A-Za-z0-9+/_-]+={0,2}$/.test(rest)
      ? 'base64 characters'
      : 'characters';
  return prefix === '' ? `${rest.length} ${kind}` : `${prefix} and ${rest.length} ${kind}`;
}
