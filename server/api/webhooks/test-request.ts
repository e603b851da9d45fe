/** POST /api/v1/webhooks/{id}/test: a signed request, sent to Weir's own port like a sender does. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Database } from '../../db/pool.ts';
import { findSealedSecret } from '../../db/queries/webhook-secrets.ts';
import type { WebhookRecord } from '../../db/queries/webhooks.ts';
import { selectedDefinition } from '../../resources/webhook-schemes.ts';
import { unseal } from '../../secrets/seal.ts';
import { isAsymmetric } from '../../signatures/keys.ts';
import { CannotSign, type Signed, signRequest } from '../../signatures/sign.ts';
import { defaultSignatureHeaders } from '../../signatures/signature.ts';

const BODY_CHARACTERS_MAX = 65_536;
const TIMEOUT_MS = 10_000;

export const testInput = z.strictObject({
  body: z
    .string()
    .max(BODY_CHARACTERS_MAX)
    .optional()
    .describe('body of the test request; absent: a small JSON document'),
  content_type: z
    .string()
    .regex(/^[\x20-\x7e]{1,200}$/, 'Give a media type, such as application/json.')
    .default('application/json')
    .describe('Content-Type of the request'),
});

export const testSchema = z.object({
  status: z.int().nullable().describe('status of the response; null: no response'),
  answer: z.unknown().describe('body of the response; a problem document if the request was refused'),
  duration_ms: z.number().describe('time until the response'),
});

export type SendTest = (
  webhook: WebhookRecord,
  input: z.output<typeof testInput>,
  requestId: string,
) => Promise<z.input<typeof testSchema>>;

/**
 * @param keys keys for webhook secrets, current first
 * @param ownUrl origin of the port that this process listens on
 * @param publicUrl FRONTEND_PUBLIC_API_URL: signed URLs begin with it
 */
export function createTest(
  database: Database,
  keys: readonly Buffer[],
  ownUrl: () => string,
  publicUrl: string,
): SendTest {
  return async (webhook, input, requestId) => {
    const body = Buffer.from(input.body ?? JSON.stringify({ type: 'weir.test', sent_at: new Date().toISOString() }));
    const sealed = await findSealedSecret(database, webhook.id);
    // If no key opens the secret, the webhook refuses every sender; the response will show that.
    const secret = sealed === undefined ? null : unseal(sealed, keys, webhook.id);
    const path = `/in/${webhook.id}`;
    const startMs = performance.now();
    const signed = sign(webhook, secret, body, `${publicUrl}${path}`);
    if (typeof signed === 'string') return { status: null, answer: { detail: signed }, duration_ms: 0 };
    const headers = { 'content-type': input.content_type, 'x-request-id': requestId, ...signed.headers };
    const answered = await post(`${ownUrl()}${path}`, headers, new Uint8Array(signed.body));
    return { ...answered, duration_ms: Math.round((performance.now() - startMs) * 100) / 100 };
  };
}

/** Signs by the webhook's scheme; the text says why that is not possible. */
function sign(webhook: WebhookRecord, secret: Buffer | null, body: Buffer, url: string): Signed | string {
  const definition = selectedDefinition(webhook);
  if (definition !== null && isAsymmetric(definition.algorithm))
    return `Weir cannot sign by the scheme ${webhook.signature_scheme}: only the sender has the private key.`;
  if (definition === null || secret === null) return { headers: {}, body };
  const request = { body, method: 'POST', url, id: randomUUID(), timeMs: Date.now() };
  const header = definition.header ?? webhook.signature_header ?? defaultSignatureHeaders[0];
  try {
    return signRequest({ ...definition, header }, secret, request);
  } catch (error) {
    if (error instanceof CannotSign) return error.message;
    throw error;
  }
}

async function post(url: string, headers: Record<string, string>, body: Uint8Array<ArrayBuffer>) {
  try {
    const response = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(TIMEOUT_MS) });
    return { status: response.status, answer: await response.json() };
  } catch (error) {
    return { status: null, answer: { detail: `No response: ${(error as Error).message}.` } };
  }
}
