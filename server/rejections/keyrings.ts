/** Reads the secrets and settings for checking refused signatures again. The hot path uses its directory instead. */

import type { Query } from '../db/pool.ts';
import { readKeyringRows } from '../db/queries/rejections.ts';
import { unseal } from '../secrets/seal.ts';
import type { RefusedRequest } from '../signatures/diagnosis/diagnose.ts';

/** A webhook's signature header, all its secrets including expired ones, and the secrets of other webhooks that it may be confused with. */
type Keyring = Omit<RefusedRequest, 'headers' | 'body'>;

/**
 * Other webhooks whose secrets are tried, most recently changed first, because webhooks are mixed up when they are set up. Each
 * costs one HMAC of the body per sample, two while secrets overlap. 100 take 4 ms of CPU in the thread for 64 KiB, 0.8 ms for 1 KiB.
 */
export const OTHER_WEBHOOKS_MAX = 100;

/**
 * Reads keyrings by webhook id. Omits webhooks that are deleted or have an unreadable secret.
 * @param keys derived for webhook secrets, current first.
 * @param othersMax maximum number of other webhooks; 0 if the caller only needs to verify a request.
 */
export async function readKeyrings(
  query: Query,
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
  const active = webhooks.map(({ id, secrets }) => ({
    id,
    secrets: secrets.filter(({ expired }) => !expired).map(({ bytes }) => bytes),
  }));
  const asked = new Set(webhookIds);
  return new Map(
    webhooks
      .filter(({ id }) => asked.has(id))
      .map(({ id, ...webhook }) => [id, { ...webhook, others: active.filter((other) => other.id !== id) }]),
  );
}
