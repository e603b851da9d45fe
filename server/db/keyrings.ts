/** How a webhook's signatures are checked, read for those who look at refused ones; the hot path has its directory. */
import type { RefusedRequest } from '../core/diagnosis.ts';
import { unseal } from '../core/seal.ts';
import type { Database } from './pool.ts';
import { readKeyringRows } from './queries/rejections.ts';

/** Its signature header and all its secrets, those that have expired too. */
export type Keyring = Pick<RefusedRequest, 'signatureHeader' | 'secrets'>;

/**
 * By webhook. Those that are deleted, or whose secrets do not open, are left out.
 * @param keys derived for webhook secrets, current first.
 */
export async function readKeyrings(
  query: Database['query'],
  keys: readonly Buffer[],
  webhookIds: readonly string[],
): Promise<Map<string, Keyring>> {
  const keyrings = new Map<string, Keyring>();
  for (const { id, signatureHeader, sealed } of await readKeyringRows(query, webhookIds)) {
    const secrets = sealed.flatMap(({ hex, expired }) => {
      const bytes = unseal(Buffer.from(hex, 'hex'), keys, id);
      return bytes === null ? [] : [{ bytes, expired }];
    });
    if (secrets.length === sealed.length) keyrings.set(id, { signatureHeader, secrets });
  }
  return keyrings;
}
