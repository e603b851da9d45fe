/** Verifies a signed request with the steps of ingest, without a server. */
import { findKey } from '../../server/model/signatures/check.ts';
import type { SchemeDefinition } from '../../server/model/signatures/definition.ts';
import { compileScheme } from '../../server/model/signatures/scheme.ts';

export const URL_OF_HOOK = 'https://weir.example.org/in/2f1c0d7e-5a31-4c8e-9b1f-0d6c2a7e4b15';

export interface SignedTestRequest {
  headers: Record<string, string>;
  body: Buffer;
  url?: string;
}

/** Whether a request verifies; the steps are those of ingest. */
export function verifies(
  definition: SchemeDefinition,
  keys: readonly Uint8Array[],
  request: SignedTestRequest,
): boolean {
  const { headers, body, url = URL_OF_HOOK } = request;
  const presented = compileScheme({ name: 'test', definition }, null).present({
    headers: Object.entries(headers).flat(),
    url,
    method: 'POST',
  });
  if (presented.kind !== 'digests') return false;
  const { prefix, suffix, digests } = presented;
  return findKey({ algorithm: definition.algorithm, keys }, { prefix, body, suffix }, Buffer.concat(digests)) >= 0;
}
