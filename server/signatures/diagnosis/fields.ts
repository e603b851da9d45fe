/** Which request headers hold a signature, or look as if they did. */

import { defaultSignatureHeaders } from '../signature.ts';
import { type LooseSignature, readLoosely } from './loose-signature.ts';
import { type Scheme, schemes } from './schemes.ts';

export interface SignatureField {
  name: string;
  value: string;
  /** It is a header that the webhook looks at. */
  expected: boolean;
  /** Of the value. */
  loose: LooseSignature;
  /** Whose header this is, and whose shape the value has. */
  scheme: Scheme | null;
  /** Name or value leave hardly a doubt that a signature is meant; else it is only some digest. */
  likely: boolean;
}

const signatureName = /signature|hmac|digest|^x-hub-/;

/**
 * @param headers names in lower case and values, in turn.
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
