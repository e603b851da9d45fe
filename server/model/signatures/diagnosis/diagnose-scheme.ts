/** Finds out why a request does not verify by the scheme of its webhook, for every scheme except sha256. */
import { findKey } from '../check.ts';
import { clockDistance } from '../clock.ts';
import type { SchemeDefinition } from '../definition.ts';
import { readableBody } from '../gzip.ts';
import { isAsymmetric, isToken, keysOf, publicKeyOf } from '../keys.ts';
import { presetNamed, presets, type SchemeSettings, schemeOf } from '../presets.ts';
import { compileScheme, type Presented, type Scheme } from '../scheme.ts';
import { onlyValue } from '../signature.ts';
import { fieldOf, headerOf } from '../sources.ts';
import { urlCandidates } from '../urls.ts';
import type { SignatureField } from './fields.ts';
import { bodyReadings, secretReadings, unsetSecrets } from './readings.ts';
import { type Diagnosis, holdsSecret, type RefusedRequest, type SchemeContext } from './refused.ts';
import { githubSha1 } from './schemes.ts';

type Judged = 'verified' | 'timestamp' | 'mismatch' | 'missing' | 'malformed' | 'body_too_large' | 'body_too_complex';

/** Judges the request as ingest does, at the time of its receipt. */
export function judgeByScheme(request: RefusedRequest, context: SchemeContext): Judged {
  const scheme = schemeOf(context.settings);
  const presented = presentedBy(scheme, request, context.url);
  if (presented.kind !== 'digests') return presented.kind;
  if (request.body === null ? request.exceedsBounds : scheme.exceedsBounds?.(context.url, request.body))
    return 'body_too_complex';
  if (request.body === null && !isToken(scheme.definition.algorithm)) return 'body_too_large';
  const keys = activeKeys(scheme.definition, request, context);
  const urls = scheme.usesUrl ? urlCandidates(context.url, scheme.definition.query) : [context.url];
  if (!urls.some((url) => signedFor(url, scheme, request, keys))) return 'mismatch';
  if (scheme.clock === null) return 'verified';
  const distanceMs = clockDistance(scheme.clock, presented.time, readable(request), context.receivedAtMs);
  return distanceMs !== null && Math.abs(distanceMs) <= scheme.clock.toleranceMs ? 'verified' : 'timestamp';
}

/** Findings, the most relevant first; at least one. */
export function* schemeFindings(request: RefusedRequest, context: SchemeContext): Generator<Diagnosis> {
  const scheme = schemeOf(context.settings);
  const { definition } = scheme;
  const header = definition.header ?? null;
  const finding = (reason: Diagnosis['reason'], otherwiseValid: boolean | null): Diagnosis => ({
    reason,
    header,
    otherwiseValid,
  });
  const judged = judgeByScheme(request, context);
  if (judged === 'verified') return yield { reason: 'verifies_now', header: null, otherwiseValid: true };
  if (judged === 'timestamp') return yield { ...finding('clock_apart', true), header: timeHeader(definition) };
  const active = request.secrets.filter(({ expired }) => !expired);
  if (!isToken(definition.algorithm)) {
    const { headers } = request;
    for (let i = 0; i < headers.length; i += 2)
      if (holdsSecret(headers[i + 1]!, active))
        return yield { reason: 'secret_sent', header: headers[i]!, otherwiseValid: false };
  }
  if (judged === 'body_too_large' || judged === 'body_too_complex')
    return yield { ...finding(judged, null), ...(judged === 'body_too_complex' && { header: null }) };
  if (judged === 'missing') {
    yield* otherSchemes(request, context, definition);
    return yield { ...finding('header_missing', null), header: null };
  }
  if (judged === 'malformed') {
    if (header !== null && onlyValue(request.headers, header) === null) return yield finding('header_repeated', false);
    for (const encoding of ['hex', 'base64', 'base64url'] as const)
      if (verifiesBy({ ...definition, encoding }, request, context)) return yield finding('signature_encoding', true);
    if (isSignedWithOtherKind(request, context)) return yield finding('key_kind', null);
    yield* otherSchemes(request, context, definition);
    return yield finding('malformed', null);
  }
  yield* mismatches(request, context, scheme, finding);
  yield* otherSchemes(request, context, definition);
  const reason = isTestMode(context.settings.signatureScheme, request.body) ? 'secret_mode' : 'digest_differs';
  yield finding(reason, false);
}

/** The mistakes that explain a well-formed signature that does not match. */
function* mismatches(
  request: RefusedRequest,
  context: SchemeContext,
  scheme: Scheme,
  finding: (reason: Diagnosis['reason'], otherwiseValid: boolean) => Diagnosis,
): Generator<Diagnosis> {
  const { definition } = scheme;
  const presented = presentedBy(scheme, request, context.url) as Extract<Presented, { kind: 'digests' }>;
  const body = signedBody(definition, request);
  const keys = activeKeys(definition, request, context);
  const fits = (key: Uint8Array) => signedBy(definition, keysOf(definition, key), presented, body);

  for (const { bytes, expired } of request.secrets)
    if (expired && fits(bytes)) return yield finding('previous_secret', true);
  for (const { bytes, expired } of request.secrets) {
    if (expired) continue;
    // The sender used the characters of the secret where the scheme decodes them, or the other way round.
    const undecoded = definition.secret === 'base64' || definition.secret === 'hex' ? [bytes, withoutMark(bytes)] : [];
    if (undecoded.some((key) => signedBy(definition, [key], presented, body)))
      return yield finding('secret_undecoded', true);
    for (const [reason, key] of secretReadings(bytes)) if (fits(key)) return yield finding(reason, true);
  }
  for (const url of scheme.usesUrl ? otherUrls(request.headers, context.url) : []) {
    if (signedFor(url, scheme, request, keys)) return yield { ...finding('url_differs', true), header: null };
  }
  if (!isToken(definition.algorithm))
    for (const [reason, reading] of bodyReadings(body))
      if (signedBy(definition, keys, presented, reading)) return yield finding(reason, true);
  if (isAsymmetric(definition.algorithm)) return;
  for (const { id, secrets } of request.others)
    if (secrets.some(fits)) return yield { ...finding('other_webhook', true), otherWebhookId: id };
  if (unsetSecrets.some((text) => text !== '' && fits(Buffer.from(text)))) yield finding('secret_unset', true);
}

/** Presets of another header that the request has: the sender signs by one of them. */
export function* otherSchemes(
  request: RefusedRequest,
  context: SchemeContext | null,
  own: SchemeDefinition | null,
): Generator<Diagnosis> {
  const github = onlySha1(request, own);
  if (github !== null) return yield github;
  const candidates = presets.filter(
    ({ name, definition: { header, algorithm } }) =>
      header !== undefined &&
      header !== own?.header &&
      !isToken(algorithm) &&
      name !== context?.settings.signatureScheme &&
      onlyValue(request.headers, header) !== undefined,
  );
  const contextOf = (name: string): SchemeContext => ({
    url: '',
    receivedAtMs: 0,
    ...context,
    settings: presetSettings(name, null),
  });
  const found = candidates.find(
    (preset) =>
      !isAsymmetric(preset.definition.algorithm) && judgeByScheme(request, contextOf(preset.name)) === 'verified',
  );
  // A header that several presets share names no sender.
  const likely = found ?? (candidates.length === 1 ? candidates[0] : undefined);
  if (likely !== undefined)
    yield {
      reason: 'scheme_other',
      header: likely.definition.header!,
      otherwiseValid: found === undefined ? null : true,
    };
}

/** The finding for GitHub's signature with SHA-1 alone, whose header another preset has too: recognized by GitHub's own header, or by the scheme of the webhook. */
function onlySha1(request: RefusedRequest, own: SchemeDefinition | null): Diagnosis | null {
  const { headers } = request;
  const value = onlyValue(headers, githubSha1.header);
  const isGithub = own?.header === 'x-hub-signature-256' || onlyValue(headers, 'x-github-event') !== undefined;
  const has256 = onlyValue(headers, 'x-hub-signature-256') !== undefined;
  if (!value || !isGithub || has256 || !githubSha1.shape.test(value)) return null;
  return schemeFinding({ name: githubSha1.header, value, scheme: githubSha1 }, request);
}

/** Finding for a signature that another scheme defines. */
export function schemeFinding(
  { name, value, scheme }: Pick<SignatureField, 'name' | 'value' | 'scheme'>,
  { headers, body, secrets }: RefusedRequest,
): Diagnosis {
  const field = (wanted: string) => {
    const at = headers.findIndex((text, i) => i % 2 === 0 && text === wanted);
    return at < 0 ? undefined : headers[at + 1];
  };
  const verdicts = secrets
    .filter(({ expired }) => !expired)
    .map(({ bytes }) => (body === null ? null : scheme!.verifies(value, field, body, bytes)));
  const otherwiseValid = verdicts.includes(null) ? null : verdicts.includes(true);
  return { reason: scheme!.reason, header: name, otherwiseValid };
}

/** Whether the request has a signature of the other kind of key: with a secret for a webhook with a public key, or the other way round. */
function isSignedWithOtherKind(request: RefusedRequest, { settings, url }: SchemeContext): boolean {
  const { signatureScheme: name, publicKey } = settings;
  if (presetNamed(name)?.publicKeyDefinition === undefined) return false;
  const other = schemeOf(presetSettings(name, publicKey === null ? '' : null));
  return presentedBy(other, request, url).kind === 'digests';
}

function presetSettings(name: string, publicKey: string | null): SchemeSettings {
  return { signatureScheme: name, schemeDefinition: null, signatureHeader: null, publicKey, toleranceSeconds: 0 };
}

function verifiesBy(definition: SchemeDefinition, request: RefusedRequest, context: SchemeContext): boolean {
  const scheme = compileScheme({ name: 'custom', definition }, 0);
  const presented = presentedBy(scheme, request, context.url);
  if (presented.kind !== 'digests' || request.body === null) return false;
  return signedBy(definition, activeKeys(definition, request, context), presented, request.body);
}

function presentedBy(scheme: Scheme, { headers }: RefusedRequest, url: string): Presented {
  return scheme.present({ headers, method: 'POST', url });
}

/** The body as its sender signs it. */
function signedBody({ decompress }: SchemeDefinition, request: RefusedRequest): Buffer {
  return decompress ? readable(request) : (request.body ?? Buffer.alloc(0));
}

function readable({ headers, body }: RefusedRequest): Buffer {
  return body === null ? Buffer.alloc(0) : readableBody(body, onlyValue(headers, 'content-encoding'));
}

function signedFor(url: string, scheme: Scheme, request: RefusedRequest, keys: readonly Uint8Array[]): boolean {
  const presented = presentedBy(scheme, request, url);
  return (
    presented.kind === 'digests' && signedBy(scheme.definition, keys, presented, signedBody(scheme.definition, request))
  );
}

function signedBy(
  { algorithm }: SchemeDefinition,
  keys: readonly Uint8Array[],
  { digests, prefix, suffix }: Extract<Presented, { kind: 'digests' }>,
  body: Uint8Array,
): boolean {
  return findKey({ algorithm, keys }, { prefix, body, suffix }, Buffer.concat(digests)) >= 0;
}

function activeKeys(
  definition: SchemeDefinition,
  { secrets }: RefusedRequest,
  { settings }: SchemeContext,
): Uint8Array[] {
  if (isAsymmetric(definition.algorithm)) {
    const key = publicKeyOf(definition, settings.publicKey ?? '');
    return key === null ? [] : [key];
  }
  return secrets.filter(({ expired }) => !expired).flatMap(({ bytes }) => keysOf(definition, bytes));
}

function timeHeader({ timestamp, header }: SchemeDefinition): string | null {
  return fieldOf(timestamp?.from) === null ? headerOf(timestamp?.from) : header!;
}

function withoutMark(secret: Buffer): Buffer {
  return Buffer.from(secret.toString('utf8').replace(/^whsec_/, ''));
}

/** URLs that the sender may have signed: the other protocol, the address it was sent to, with and without a final slash. */
function otherUrls(headers: readonly string[], url: string): string[] {
  if (!URL.canParse(url)) return [];
  const { pathname, search, host } = new URL(url);
  const hosts = [
    ...new Set([host, onlyValue(headers, 'x-forwarded-host') ?? host, onlyValue(headers, 'host') ?? host]),
  ];
  const paths = [pathname + search, pathname, `${pathname}/`];
  return hosts
    .flatMap((name) => ['https', 'http'].flatMap((protocol) => paths.map((path) => `${protocol}://${name}${path}`)))
    .filter((other) => other !== url);
}

/** Stripe marks events of its test mode; each mode has its own secret. */
function isTestMode(scheme: string, body: Buffer | null): boolean {
  return scheme === 'stripe' && body !== null && /"livemode"\s*:\s*false/.test(body.toString('latin1'));
}
