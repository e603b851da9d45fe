/** Finds the request headers that contain a signature, or look like one. */

import { defaultSignatureHeaders } from '../signature.ts';
import { type LooseSignature, readLoosely } from './loose-signature.ts';
import { type Scheme, schemes } from './schemes.ts';

export interface SignatureField {
  name: string;
  value: string;
  /** True for a signature header that the webhook reads. */
  expected: boolean;
  /** The value, parsed leniently. */
  loose: LooseSignature;
  /** The scheme of another service that header and value match. */
  scheme: Scheme | null;
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
    const scheme = schemes.find(({ header, shape }) => header === name && shape.test(value)) ?? null;
    const claims = loose.digest !== null && loose.algorithm === 'sha256';
    const likely = expected || scheme !== null || (claims && (loose.fault === null || signatureName.test(name)));
    if (likely || claims) fields.push({ name, value, expected, loose, scheme, likely });
  }
  return fields;
}
