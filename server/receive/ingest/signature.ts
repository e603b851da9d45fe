/** Step `verify`: decides whether a request carries a valid signature of its webhook, and whether its time is acceptable. */
import type { Exchange } from '../../base/http/exchange.ts';
import { type Problem, problem } from '../../base/http/problem.ts';
import { problems } from '../../model/errors.ts';
import { findKey, type Keyring } from '../../model/signatures/check.ts';
import { clockDistance } from '../../model/signatures/clock.ts';
import { isToken } from '../../model/signatures/keys.ts';
import { DEFAULT_SCHEME } from '../../model/signatures/presets.ts';
import type { PresentedSignatures } from '../../model/signatures/scheme.ts';
import { urlCandidates } from '../../model/signatures/urls.ts';
import type { Verifier } from './verify.ts';
import type { SignatureVerdict, VerifyTask } from './verify-thread.ts';
import { keyringAt, type Webhook } from './webhook.ts';

export type SignatureOutcome =
  | { kind: 'verified' }
  | { kind: 'missing' }
  | { kind: 'mismatch' }
  /** `header`: the header that is malformed. */
  | { kind: 'malformed'; header: string }
  /** The check would have to read more of the body than a scheme allows, see body-bounds.ts. */
  | { kind: 'body_too_complex' }
  /** The signature is valid. `distanceMs`: how far its time is ahead of the clock; negative: behind; null: no readable time. */
  | { kind: 'timestamp'; distanceMs: number | null }
  /** No thread verified it in time. */
  | { kind: 'unavailable' }
  /** A secret that may have made the signature cannot be decrypted. */
  | { kind: 'unreadable' };

const verified: SignatureOutcome = { kind: 'verified' };
const tooComplex: SignatureOutcome = { kind: 'body_too_complex' };
const unreadableSecret: SignatureOutcome = { kind: 'unreadable' };
const noTexts: readonly PresentedSignatures[] = [];

interface SignatureParts {
  verifier: Verifier;
  /** FRONTEND_PUBLIC_API_URL: signed URLs begin with it. */
  publicUrl: string;
  /** Called when a signature is accepted. `secretIndex`: index of its secret in the webhook's `secretIds`. */
  onVerified: (webhook: Webhook, secretIndex: number) => void;
}

/** A request whose body is complete. */
export interface ReceivedRequest {
  readonly exchange: Exchange;
  readonly webhook: Webhook;
  readonly body: Uint8Array<SharedArrayBuffer>;
  /** What is read as JSON: the body, decompressed if it was compressed. */
  readonly json: Uint8Array;
  /** What the sender signs: the body, decompressed where its scheme says so. */
  readonly signed: Uint8Array<SharedArrayBuffer>;
  /** Called once, in a later turn, if the check returned null. Must not throw. */
  signatureChecked(outcome: SignatureOutcome): void;
}

/** Returns the outcome, or null while a thread verifies the signature. */
export type SignatureCheck = (request: ReceivedRequest, nowMs: number) => SignatureOutcome | null;

/** Creates the check of received requests. A check compares a token at once, and has a thread verify any other signature. */
export function createSignatureCheck(parts: SignatureParts): SignatureCheck {
  return (request, nowMs) => {
    const { exchange, webhook } = request;
    const { scheme } = webhook;
    const keyring = keyringAt(webhook, nowMs);
    // Only the default scheme works without a secret.
    if (keyring.keys.length === 0)
      return isUnreadable(webhook, nowMs) || scheme.name !== DEFAULT_SCHEME ? unreadableSecret : verified;
    const { headers, method } = exchange;
    const url = scheme.usesUrl ? signedUrl(parts.publicUrl, exchange) : '';
    const presented = scheme.present({ headers, method, url });
    if (presented.kind !== 'digests') return presented;
    if (scheme.exceedsBounds?.(url, request.body)) return tooComplex;
    const pending = new PendingCheck(parts, request, keyring, presented, nowMs);
    if (isToken(keyring.algorithm)) return pending.conclude(tokenVerdict(keyring, presented));
    parts.verifier.verify(pending);
    return null;
  };
}

/** A request whose signatures are known but not verified. */
class PendingCheck implements VerifyTask {
  readonly keyring: Keyring;
  presented: PresentedSignatures;
  others: readonly PresentedSignatures[] = noTexts;
  readonly #parts: SignatureParts;
  readonly #request: ReceivedRequest;
  readonly #nowMs: number;

  constructor(
    parts: SignatureParts,
    request: ReceivedRequest,
    keyring: Keyring,
    presented: PresentedSignatures,
    nowMs: number,
  ) {
    this.#parts = parts;
    this.#request = request;
    this.keyring = keyring;
    this.presented = presented;
    this.#nowMs = nowMs;
  }

  get body(): Uint8Array<SharedArrayBuffer> {
    return this.#request.signed;
  }

  takeVerdict(verdict: SignatureVerdict): void {
    if (verdict.kind === 'mismatch' && this.others === noTexts && this.#triesOtherUrls()) return;
    this.#request.signatureChecked(this.conclude(verdict));
  }

  /** Verifies again with the other URLs that the sender may have signed. Returns false if no other URL is possible. */
  #triesOtherUrls(): boolean {
    const { exchange, webhook } = this.#request;
    const { scheme } = webhook;
    if (!scheme.usesUrl) return false;
    const { headers, method } = exchange;
    const [, ...urls] = urlCandidates(signedUrl(this.#parts.publicUrl, exchange), scheme.definition.query);
    const [first, ...others] = urls.map((url) => scheme.present({ headers, method, url }) as PresentedSignatures);
    if (first === undefined) return false;
    this.presented = first;
    this.others = others;
    this.#parts.verifier.verify(this);
    return true;
  }

  conclude(verdict: SignatureVerdict): SignatureOutcome {
    const { webhook, json } = this.#request;
    // The unreadable secret may have made this signature: the sender has to retry, and would treat 403 as final.
    if (verdict.kind !== 'verified')
      return verdict.kind === 'mismatch' && isUnreadable(webhook, this.#nowMs) ? unreadableSecret : verdict;
    const { clock } = webhook.scheme;
    if (clock !== null) {
      const distanceMs = clockDistance(clock, this.presented.time, json, this.#nowMs);
      if (distanceMs === null || Math.abs(distanceMs) > clock.toleranceMs) return { kind: 'timestamp', distanceMs };
    }
    this.#parts.onVerified(webhook, Math.floor(verdict.keyIndex / webhook.keysPerSecret));
    return verified;
  }
}

/** Whether a secret that may have made the signature cannot be decrypted. */
function isUnreadable({ unreadableUntilMs }: Webhook, nowMs: number): boolean {
  return nowMs < unreadableUntilMs;
}

/** Compares a token in this thread: its hash costs 1 us, and a message to another thread more. */
function tokenVerdict(keyring: Keyring, { digests }: PresentedSignatures): SignatureVerdict {
  const keyIndex = findKey(keyring, { prefix: '', body: digests[0]!, suffix: '' }, digests[0]!);
  return keyIndex < 0 ? { kind: 'mismatch' } : { kind: 'verified', keyIndex };
}

/** The URL as the sender knows it. The Host header is not used: a client can choose it. */
export function signedUrl(publicUrl: string, { path, query }: Pick<Exchange, 'path' | 'query'>): string {
  return `${publicUrl}${path}${query === '' ? '' : `?${query}`}`;
}

type Refused = Extract<
  SignatureOutcome,
  { kind: 'missing' | 'malformed' | 'mismatch' | 'timestamp' | 'body_too_complex' }
>;

/** The problem that answers a refused request. With the default scheme, its detail is that of the table of errors. */
export function refusalOf({ scheme, refusedStatus }: Webhook, outcome: Refused): Problem {
  const code = refusedStatus === 401 ? 'signature_unauthenticated' : (`signature_${outcome.kind}` as const);
  return problem(code, scheme.name === DEFAULT_SCHEME ? undefined : detailOf(scheme, outcome));
}

function detailOf({ name, headers, clock }: Webhook['scheme'], outcome: Refused): string {
  const where = headers.length === 0 ? 'the body' : headers.join(' or ');
  switch (outcome.kind) {
    case 'missing':
      return `The webhook expects a signature of the scheme ${name} in ${where}, and the request has none.`;
    case 'malformed':
      return `The header ${outcome.header} is missing, was sent twice, or does not have the form of the scheme ${name}.`;
    case 'mismatch':
      return `The signature in ${where} does not match: compute it over the exact bytes that are sent, as the scheme ${name} requires, with the secret of this webhook.`;
    case 'body_too_complex':
      return problems.signature_body_too_complex.detail;
    case 'timestamp':
      return timestampDetail(outcome.distanceMs, clock!.toleranceMs);
  }
}

function timestampDetail(distanceMs: number | null, toleranceMs: number): string {
  const allowed = `the webhook allows ${toleranceMs / 1000} s`;
  if (distanceMs === null) return `The signature is valid, but the request holds no time that can be read; ${allowed}.`;
  const seconds = Math.round(Math.abs(distanceMs) / 1000);
  return `The signature is valid, but the time of the request is ${seconds} s ${distanceMs < 0 ? 'behind' : 'ahead of'} the clock of this server; ${allowed}. Set the clocks, or sign and send again.`;
}
