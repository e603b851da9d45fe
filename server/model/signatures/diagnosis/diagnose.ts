/**
 * Finds out why a signature does not verify: tries the known mistakes of senders and operators until one fits. The result is for
 * users of Weir only. The sender does not see it, so digests need no constant-time comparison.
 */
import { createHmac } from 'node:crypto';
import { sha256 } from '../keys.ts';
import { DEFAULT_SCHEME, schemeOf } from '../presets.ts';
import { judge, mismatches, otherSchemes, schemeFinding, schemeFindings } from './diagnose-scheme.ts';
import { type SignatureField, signatureFields } from './fields.ts';
import type { RejectionReason } from './reasons.ts';
import { activeSecrets, type Diagnosis, holdsSecret, type RefusedRequest } from './refused.ts';

/** Returns the first finding that fully explains the refusal, otherwise the first finding: they are ordered by relevance. */
export function diagnose(request: RefusedRequest): Diagnosis {
  let first: Diagnosis | null = null;
  const isDefault = request.settings.signatureScheme === DEFAULT_SCHEME;
  for (const finding of isDefault ? findings(request) : schemeFindings(request)) {
    if (finding.otherwiseValid) return finding;
    first ??= finding;
  }
  return first!;
}

/** Whether the request verifies with the webhook's present settings. */
export function verifies(request: RefusedRequest): boolean {
  return judge(request) === 'verified';
}

/** Findings for the scheme sha256. */
function* findings(request: RefusedRequest): Generator<Diagnosis> {
  const { headers, body, settings } = request;
  const fields = signatureFields(headers, settings.signatureHeader);
  const expected = fields.filter((field) => field.expected);
  const hashes = hashesOf(request);

  if (verifies(request)) yield { reason: 'verifies_now', header: null, otherwiseValid: true };

  for (let i = 0; i < headers.length; i += 2)
    if (headers[i] !== 'x-gitlab-token' && holdsSecret(headers[i + 1]!, activeSecrets(request)))
      return yield { reason: 'secret_sent', header: headers[i]!, otherwiseValid: false };

  const repeated = expected.find(({ name }, i) => expected.findIndex((other) => other.name === name) < i);
  if (repeated !== undefined) {
    const valid = expected.some((field) => field.name === repeated.name && isOfBody(field, hashes));
    yield { reason: 'header_repeated', header: repeated.name, otherwiseValid: body && valid };
  }
  const ofScheme = fields.filter(({ named }) => named !== null);
  for (const field of ofScheme) if (field.expected || expected.length === 0) yield schemeFinding(field, request);

  for (const field of expected) yield* expectedFindings(field, request, hashes);

  for (const field of fields) {
    if (field.expected || field.named !== null) continue;
    const isSigned = isOfBody(field, hashes);
    if (field.likely || isSigned)
      yield {
        reason: 'header_other',
        header: field.name,
        otherwiseValid: body && isSigned && field.loose.fault === null,
      };
  }
  for (const field of ofScheme) yield schemeFinding(field, request);
  if (ofScheme.length === 0) yield* otherSchemes(request);
  yield { reason: 'header_missing', header: null, otherwiseValid: null };
}

/** Findings for a signature header that the webhook reads. */
function* expectedFindings(field: SignatureField, request: RefusedRequest, hashes: Hashes): Generator<Diagnosis> {
  const { name: header, loose } = field;
  const { body } = request;
  const finding = (reason: RejectionReason, otherwiseValid: boolean | null) => ({ reason, header, otherwiseValid });
  if (loose.fault !== null) return yield finding(loose.fault, body && loose.digest ? isOfBody(field, hashes) : null);
  if (body === null) return yield finding('body_too_large', null);
  const settings = { ...request.settings, signatureHeader: header };
  yield* mismatches({ ...request, settings }, schemeOf(settings), finding);
  const isHash = hashes('not_hmac').some((hash) => hash.equals(loose.digest!));
  yield isHash ? finding('not_hmac', true) : finding('digest_differs', false);
}

type Hashes = (kind: SignatureField['loose']['algorithm'] | 'not_hmac') => readonly Buffer[];

/** HMACs of the body with the valid secrets, and hashes that senders mistake for them. Computed once for up to a hundred digests. */
function hashesOf(request: RefusedRequest): Hashes {
  const { body } = request;
  const secrets = activeSecrets(request);
  const made = new Map<string, readonly Buffer[]>();
  return (kind) => {
    const hmacs = () => secrets.map((secret) => createHmac(kind, secret).update(body!).digest());
    const hashes = made.get(kind) ?? (body === null ? [] : kind === 'not_hmac' ? notHmacs(body, secrets) : hmacs());
    made.set(kind, hashes);
    return hashes;
  };
}

/** Whether the digest is the HMAC of the body with a valid secret, whatever its form. */
function isOfBody({ loose: { algorithm, digest } }: SignatureField, hashes: Hashes): boolean {
  return digest !== null && hashes(algorithm).some((hash) => hash.equals(digest));
}

/** Hashes that senders mistake for an HMAC. */
function notHmacs(body: Buffer, secrets: readonly Buffer[]): Buffer[] {
  const ofSecrets = secrets.flatMap((secret) => [
    sha256(Buffer.concat([secret, body])),
    sha256(Buffer.concat([body, secret])),
    createHmac('sha256', body).update(secret).digest(),
  ]);
  return [...ofSecrets, sha256(body)];
}
