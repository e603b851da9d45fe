/** POST /api/v1/webhooks/{id}/test: a signed request, sent to Weir's own port like a sender does. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { fieldName } from '../../../model/fields.ts';
import { isAsymmetric } from '../../../model/signatures/keys.ts';
import { CannotSign, type Signed, signRequest } from '../../../model/signatures/sign.ts';
import { defaultSignatureHeaders } from '../../../model/signatures/signature.ts';
import { selectedDefinition } from '../../../model/webhook-schemes.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { findSealedSecret } from '../../../store/queries/webhooks/secrets.ts';
import type { WebhookRecord } from '../../../store/queries/webhooks/webhooks.ts';
import { unseal } from '../../../store/secrets/seal.ts';

const BODY_CHARACTERS_MAX = 65_536;
const TIMEOUT_MS = 10_000;

const HEADERS_MAX = 100;
/** Header fields that the HTTP client, Weir or proxies set. A test request may give the others. */
const reserved =
  /^(host|connection|keep-alive|content-length|content-type|transfer-encoding|content-encoding|te|trailer|upgrade|expect|accept-encoding|cookie|authorization|forwarded|x-request-id|(proxy|x-forwarded|sec)-.*)$/;

/** Whether a test request can have this header. @param name in lower case */
export function isTestHeader(name: string): boolean {
  return !reserved.test(name);
}

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
  headers: z
    .record(
      fieldName.refine(isTestHeader, 'This header is set by Weir or by the connection.'),
      z.string().regex(/^[\t\x20-\x7e\xa0-\xff]{0,4096}$/, 'Give at most 4096 characters on one line.'),
    )
    .refine((headers) => Object.keys(headers).length <= HEADERS_MAX, `Give at most ${HEADERS_MAX} headers.`)
    .default({})
    .describe('more headers; those of the signature replace them'),
});

export const testSchema = z.object({
  status: z.int().nullable().describe('status of the response; null: no response'),
  event_id: z.guid().nullable().describe('id of the stored event; null: none was stored'),
  answer: z
    .unknown()
    .describe('body of the response, as text if it is not JSON; a problem document if the request was refused'),
  duration_ms: z.number().describe('time until the response'),
});

export type SendTest = (
  webhook: WebhookRecord,
  input: z.output<typeof testInput>,
  requestId: string,
) => Promise<z.input<typeof testSchema>>;

/**
 * Returns the function that sends a test request to this process, signed by the scheme of the webhook.
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
    if (typeof signed === 'string') return { status: null, event_id: null, answer: { detail: signed }, duration_ms: 0 };
    const own = { 'content-type': input.content_type, 'x-request-id': requestId, ...signed.headers };
    // A header given twice in different case would be sent as one with both values.
    const headers = { ...input.headers, ...lowerCase(own) };
    const answered = await post(`${ownUrl()}${path}`, headers, new Uint8Array(signed.body));
    return { ...answered, duration_ms: Math.round((performance.now() - startMs) * 100) / 100 };
  };
}

function lowerCase(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Signs by the scheme of the webhook. A text: why that is not possible. */
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
    return {
      status: response.status,
      event_id: response.headers.get('x-weir-event-id'),
      answer: jsonOrText(await response.text()),
    };
  } catch (error) {
    return { status: null, event_id: null, answer: { detail: `No response: ${(error as Error).message}.` } };
  }
}

/** A webhook may answer with a text of its own. */
function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
