/**
 * Finds out why a signature does not verify: tries the known mistakes of senders and operators until one fits. The result is for
 * users of Weir only. The sender does not see it, so digests need no constant-time comparison.
 */
import { createHash, createHmac } from 'node:crypto';
import { presentedSignature } from '../signature.ts';
import { judgeByScheme, otherSchemes, schemeFinding, schemeFindings } from './diagnose-scheme.ts';
import { type SignatureField, signatureFields } from './fields.ts';
import { bodyReadings, secretReadings, unsetSecrets } from './readings.ts';
import type { RejectionReason } from './reasons.ts';
import { type Diagnosis, holdsSecret, type OtherWebhook, type RefusedRequest, type WebhookSecret } from './refused.ts';

/** Returns the first finding that fully explains the refusal, otherwise the first finding: they are ordered by relevance. */
export function diagnose(request: RefusedRequest): Diagnosis {
  let first: Diagnosis | null = null;
  const all = request.scheme === undefined ? findings(request) : schemeFindings(request, request.scheme);
  for (const finding of all) {
    if (finding.otherwiseValid) return finding;
    first ??= finding;
  }
  return first!;
}

/** Whether the request verifies with the webhook's present settings. */
export function verifies(request: RefusedRequest): boolean {
  if (request.scheme !== undefined) return judgeByScheme(request, request.scheme) === 'verified';
  const { headers, body, signatureHeader, secrets } = request;
  const present = secrets.filter(({ expired }) => !expired);
  if (present.length === 0) return true;
  const presented = presentedSignature(headers, signatureHeader);
  if (body === null || presented.kind !== 'digests') return false;
  const expected = present.map(({ bytes }) => hmac(bytes, body));
  return presented.digests.some((digest) => expected.includes(hex(digest)));
}

function* findings(request: RefusedRequest): Generator<Diagnosis> {
  const { headers, body, signatureHeader, secrets, others } = request;
  const present = secrets.filter(({ expired }) => !expired);
  const fields = signatureFields(headers, signatureHeader);
  const expected = fields.filter((field) => field.expected);
  const digests = body === null ? null : expectedDigests(body, secrets);
  const explain = (field: SignatureField) => explained(field, digests, request);
  // Computed once per request, whatever its number of signatures, because it is the most expensive step.
  let signers: ReadonlyMap<string, string> | undefined;
  const signerOf = (digest: Buffer) => {
    signers ??= otherSigners(body!, others);
    return signers.get(hex(digest));
  };

  if (verifies(request)) yield { reason: 'verifies_now', header: null, otherwiseValid: true };

  for (let i = 0; i < headers.length; i += 2)
    if (headers[i] !== 'x-gitlab-token' && holdsSecret(headers[i + 1]!, present))
      return yield { reason: 'secret_sent', header: headers[i]!, otherwiseValid: false };

  const repeated = expected.find(({ name }, i) => expected.findIndex((other) => other.name === name) < i);
  if (repeated !== undefined) {
    const valid = expected.some((field) => field.name === repeated.name && explain(field) === 'verifies_now');
    yield { reason: 'header_repeated', header: repeated.name, otherwiseValid: body && valid };
  }
  const ofScheme = fields.filter(({ scheme }) => scheme !== null);
  for (const field of ofScheme) if (field.expected || expected.length === 0) yield schemeFinding(field, request);

  for (const field of expected) yield expectedFinding(field, explain(field), body !== null, signerOf);

  for (const field of fields) {
    if (field.expected || field.scheme !== null) continue;
    const valid = field.loose.fault === null && explain(field) === 'verifies_now';
    const nearly = field.loose.fault !== null && explain(field) === 'verifies_now';
    if (field.likely || valid || nearly)
      yield { reason: 'header_other', header: field.name, otherwiseValid: body && valid };
  }
  for (const field of ofScheme) yield schemeFinding(field, request);
  if (ofScheme.length === 0) yield* otherSchemes(request, null, null);
  yield { reason: 'header_missing', header: null, otherwiseValid: null };
}

/** Finding for a signature header that the webhook reads. */
function expectedFinding(
  field: SignatureField,
  reason: RejectionReason | null,
  hasBody: boolean,
  signerOf: (digest: Buffer) => string | undefined,
): Diagnosis {
  const { name: header, loose } = field;
  if (loose.fault !== null)
    return { reason: loose.fault, header, otherwiseValid: hasBody && loose.digest ? reason === 'verifies_now' : null };
  if (!hasBody) return { reason: 'body_too_large', header, otherwiseValid: null };
  // If the digest verifies, the request was refused for another reason, and that finding comes earlier.
  if (reason !== null) return { reason, header, otherwiseValid: true };
  const otherWebhookId = signerOf(loose.digest!);
  if (otherWebhookId === undefined) return { reason: 'digest_differs', header, otherwiseValid: false };
  return { reason: 'other_webhook', header, otherwiseValid: true, otherWebhookId };
}

/** The reason that explains the digest of a field; null if no reason does. */
function explained(
  { loose }: SignatureField,
  digests: ReadonlyMap<string, RejectionReason> | null,
  { body, secrets }: RefusedRequest,
): RejectionReason | null {
  if (loose.digest === null || digests === null) return null;
  if (loose.algorithm === 'sha256') return digests.get(hex(loose.digest)) ?? null;
  const claimed = loose.digest;
  return secrets.some(
    ({ bytes, expired }) => !expired && createHmac(loose.algorithm, bytes).update(body!).digest().equals(claimed),
  )
    ? 'verifies_now'
    : null;
}

/** Maps each explainable digest, in hex, to its likeliest reason. */
function expectedDigests(body: Buffer, secrets: readonly WebhookSecret[]): Map<string, RejectionReason> {
  const digests = new Map<string, RejectionReason>();
  const add = (reason: RejectionReason, digest: string) => {
    if (!digests.has(digest)) digests.set(digest, reason);
  };
  const present = secrets.filter(({ expired }) => !expired).map(({ bytes }) => bytes);
  for (const key of present) add('verifies_now', hmac(key, body));
  for (const { bytes, expired } of secrets) if (expired) add('previous_secret', hmac(bytes, body));
  for (const [reason, reading] of bodyReadings(body)) for (const key of present) add(reason, hmac(key, reading));
  for (const key of present) {
    for (const [reason, reading] of secretReadings(key)) add(reason, hmac(reading, body));
    add('not_hmac', sha256(key, body));
    add('not_hmac', sha256(body, key));
    add('not_hmac', hmac(body, key));
  }
  for (const key of unsetSecrets) add('secret_unset', hmac(Buffer.from(key), body));
  add('not_hmac', sha256(body));
  return digests;
}

/** Maps the digest of the body under each secret of the other webhooks, in hex, to the id of the webhook. */
function otherSigners(body: Buffer, others: readonly OtherWebhook[]): Map<string, string> {
  const signers = new Map<string, string>();
  for (const { id, secrets } of others) for (const secret of secrets) signers.set(hmac(secret, body), id);
  return signers;
}

function hmac(key: Uint8Array, body: Uint8Array): string {
  return createHmac('sha256', key).update(body).digest('hex');
}

function sha256(...parts: Uint8Array[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
}

function hex(digest: Uint8Array): string {
  return Buffer.from(digest).toString('hex');
}
