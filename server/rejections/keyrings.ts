/** How a webhook's signatures are checked, read for those who look at refused ones; the hot path has its directory. */

import type { Database } from '../db/pool.ts';
import { readKeyringRows } from '../db/queries/rejections.ts';
import { unseal } from '../secrets/seal.ts';
import type { RefusedRequest } from '../signatures/diagnosis/diagnose.ts';

/** Its signature header, all its secrets, those that have expired too, and the secrets of webhooks it may be confused with. */
type Keyring = Omit<RefusedRequest, 'headers' | 'body'>;

/**
 * So many webhooks may be what the sender meant, those changed last first: two are mixed up when they are set up. Each costs a
 * sample one HMAC of its body, or two while secrets overlap: 100 take 4 ms of CPU for 64 KiB, 0.8 ms for 1 KiB, in the thread.
 */
export const OTHER_WEBHOOKS_MAX = 100;

/**
 * By webhook. Those that are deleted, or whose secrets do not open, are left out.
 * @param keys derived for webhook secrets, current first.
 * @param othersMax 0 for whoever asks only whether a request verifies.
 */
export async function readKeyrings(
  query: Database['query'],
  keys: readonly Buffer[],
  webhookIds: readonly string[],
  othersMax = OTHER_WEBHOOKS_MAX,
): Promise<Map<string, Keyring>> {
  const rows = await readKeyringRows(query, webhookIds, othersMax);
  const webhooks = rows.flatMap(({ id, signatureHeader, sealed }) => {
    const secrets = sealed.flatMap(({ hex, expired }) => {
      const bytes = unseal(Buffer.from(hex, 'hex'), keys, id);
      return bytes === null ? [] : [{ bytes, expired }];
    });
    return secrets.length === sealed.length ? [{ id, signatureHeader, secrets }] : [];
  });
  const inForce = webhooks.map(({ id, secrets }) => ({
    id,
    secrets: secrets.filter(({ expired }) => !expired).map(({ bytes }) => bytes),
  }));
  const asked = new Set(webhookIds);
  return new Map(
    webhooks
      .filter(({ id }) => asked.has(id))
      .map(({ id, ...webhook }) => [id, { ...webhook, others: inForce.filter((other) => other.id !== id) }]),
  );
}
