/** Reads the secrets and settings for checking refused signatures again. The hot path uses its directory instead. */

import { problemLater } from '../../base/http/problem.ts';
import { restoredHeaders } from '../../model/signatures/diagnosis/kept-request.ts';
import type { RefusedRequest, SchemeContext } from '../../model/signatures/diagnosis/refused.ts';
import { DEFAULT_SCHEME } from '../../model/signatures/presets.ts';
import type { Query } from '../../store/connect/pool.ts';
import { readKeyringRows } from '../../store/queries/rejections/keyrings.ts';
import type { RejectionDetail } from '../../store/queries/rejections/rejections.ts';
import { unseal } from '../../store/secrets/seal.ts';

/** A secret cannot be opened, or the thread of the check failed. */
export const unavailable = problemLater('verification_unavailable', 1);

/** A webhook's signature header, all its secrets including expired ones, and the secrets of other webhooks that it may be confused with. */
type WebhookKeyring = Omit<RefusedRequest, 'headers' | 'body' | 'exceedsBounds' | 'scheme'> & {
  /** Null: sha256. */
  scheme: Omit<SchemeContext, 'url' | 'receivedAtMs'> | null;
};

/** Completes a keyring for one request. */
export function requestOf(
  { scheme, ...keyring }: WebhookKeyring,
  request: Pick<RefusedRequest, 'headers' | 'body' | 'exceedsBounds'> & { url: string | null; receivedAtMs: number },
): RefusedRequest {
  const { headers, body, exceedsBounds = false, url, receivedAtMs } = request;
  return {
    headers,
    body,
    exceedsBounds,
    ...keyring,
    ...(scheme && { scheme: { ...scheme, url: url ?? '', receivedAtMs } }),
  };
}

/** A stored rejection as a request. Its time is judged at the time of receipt. */
export function storedRequest(rejection: RejectionDetail, body: Buffer, keyring: WebhookKeyring): RefusedRequest {
  const receivedAtMs = Date.parse(rejection.received_at);
  return requestOf(keyring, { headers: restoredHeaders(rejection), body, url: rejection.url, receivedAtMs });
}

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
): Promise<Map<string, WebhookKeyring>> {
  const rows = await readKeyringRows(query, webhookIds, othersMax);
  const webhooks = rows.flatMap(({ id, sealed, ...settings }) => {
    const secrets = sealed.flatMap(({ hex, expired }) => {
      const bytes = unseal(Buffer.from(hex, 'hex'), keys, id);
      return bytes === null ? [] : [{ bytes, expired }];
    });
    const scheme = settings.signatureScheme === DEFAULT_SCHEME ? null : { settings };
    const { signatureHeader } = settings;
    return secrets.length === sealed.length ? [{ id, signatureHeader, secrets, scheme }] : [];
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
