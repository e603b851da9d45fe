/** POST /api/v1/webhooks/{id}/test: a signed request, sent to Weir's own port like a sender does. */
import { createHmac } from 'node:crypto';
import { z } from 'zod';
import type { Database } from '../../db/pool.ts';
import { findSealedSecret } from '../../db/queries/webhook-secrets.ts';
import type { WebhookRecord } from '../../db/queries/webhooks.ts';
import { unseal } from '../../secrets/seal.ts';
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
 */
export function createTest(database: Database, keys: readonly Buffer[], ownUrl: () => string): SendTest {
  return async (webhook, input, requestId) => {
    const body = input.body ?? JSON.stringify({ type: 'weir.test', sent_at: new Date().toISOString() });
    const sealed = await findSealedSecret(database, webhook.id);
    // If no key opens the secret, the webhook refuses every sender; the response will show that.
    const secret = sealed === undefined ? null : unseal(sealed, keys, webhook.id);
    const headers = {
      'content-type': input.content_type,
      'x-request-id': requestId,
      ...(secret === null ? {} : { [webhook.signature_header ?? defaultSignatureHeaders[0]]: sign(body, secret) }),
    };
    const startMs = performance.now();
    const answered = await post(`${ownUrl()}/in/${webhook.id}`, headers, body);
    return { ...answered, duration_ms: Math.round((performance.now() - startMs) * 100) / 100 };
  };
}

async function post(url: string, headers: Record<string, string>, body: string) {
  try {
    const response = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(TIMEOUT_MS) });
    return { status: response.status, answer: await response.json() };
  } catch (error) {
    return { status: null, answer: { detail: `No response: ${(error as Error).message}.` } };
  }
}

function sign(body: string, secret: Buffer): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}
