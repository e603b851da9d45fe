/** The stored part of a refused request: enough to check it again, without anything that reveals a secret. */
import { isToken } from '../keys.ts';
import { DEFAULT_SCHEME, schemeOf } from '../presets.ts';
import { storedHeaders } from '../stored-headers.ts';
import { type SignatureField, shapeOf, signatureFields } from './fields.ts';
import { holdsSecret, type RefusedRequest } from './refused.ts';
import { namedHeaderOf } from './schemes.ts';

export interface KeptSignature {
  name: string;
  /** Description of the value that users see. */
  shape: string;
  /** The value, for checking again. Null unless it is certainly a digest, because it might be a secret. */
  value: string | null;
}

export interface KeptRequest {
  /** Field lines as from `storedHeaders`, without signatures and without fields that contain a secret. */
  headers: string;
  signatures: KeptSignature[];
  /** False if the body contains a secret or was too large. */
  keepsBody: boolean;
}

/** Selects the part of a refused request that is stored. Texts that contain a secret of the webhook are left out. */
export function keptRequest(request: RefusedRequest): KeptRequest {
  const { headers, body, settings } = request;
  const { signatureHeader } = settings;
  const secrets = request.secrets.map(({ bytes }) => bytes);
  const own = ownHeaders(request);
  const fields = signatureFields(headers, signatureHeader).filter(({ name }) => !own.names.includes(name));
  const isSignature = (name: string, value: string) =>
    fields.some((field) => field.name === name && field.value === value);
  const keptOf = (name: string, value: string, isKept: boolean): KeptSignature => ({
    name,
    shape: shapeOf(value),
    value: isKept && !holdsSecret(value, secrets) ? value : null,
  });
  const others: string[] = [];
  const signatures: KeptSignature[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i]!, headers[i + 1]!];
    if (own.names.includes(name)) signatures.push(keptOf(name, value, own.areDigests));
    else if (!isSignature(name, value) && !holdsSecret(value, secrets)) others.push(name, value);
  }
  signatures.push(...fields.map((field) => keptOf(field.name, field.value, isDigest(field))));
  return {
    headers: storedHeaders(others, signatureHeader === null ? [] : [signatureHeader]),
    signatures,
    keepsBody: body !== null && !holdsSecret(body.toString('latin1'), secrets.map(asLatin1)),
  };
}

/** The signature headers of the webhook's own scheme; none for sha256. `areDigests`: they hold well-formed signatures and no token. */
function ownHeaders({ headers, settings, url }: RefusedRequest) {
  if (settings.signatureScheme === DEFAULT_SCHEME) return { names: [], areDigests: false };
  const scheme = schemeOf(settings);
  const isSignature = !isToken(scheme.definition.algorithm);
  const presented = scheme.present({ headers, method: 'POST', url });
  return { names: scheme.headers, areDigests: isSignature && presented.kind === 'digests' };
}

/** Rebuilds the headers of the stored request. A signature value that was not stored becomes a malformed one. */
export function restoredHeaders(kept: Pick<KeptRequest, 'headers' | 'signatures'>): string[] {
  const headers: string[] = [];
  for (const line of kept.headers === '' ? [] : kept.headers.split('\n')) {
    const colon = line.indexOf(': ');
    headers.push(line.slice(0, colon), line.slice(colon + 2));
  }
  for (const { name, value } of kept.signatures) headers.push(name, value ?? '(not kept)');
  return headers;
}

/** Whether the value is certainly a digest. A damaged signature of a scheme other than the webhook's counts as one. */
function isDigest({ name, expected, loose, named }: SignatureField): boolean {
  const known = named ?? (expected ? null : namedHeaderOf(name));
  return loose.digest !== null || (known !== null && !isToken(known.scheme.definition.algorithm));
}

/** Converts a secret for a byte-by-byte search of bodies, whatever their character set. */
function asLatin1(secret: Buffer): Buffer {
  return Buffer.from(secret.toString('latin1'));
}
