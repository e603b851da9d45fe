/** Finds out why a request does not verify by the scheme of its webhook. For the scheme sha256, diagnose.ts reads more headers. */
import { findKey } from '../check.ts';
import { clockDistance } from '../clock.ts';
import type { SchemeDefinition } from '../definition.ts';
import { readableBody } from '../gzip.ts';
import { isAsymmetric, isToken, keysOf, publicKeyOf } from '../keys.ts';
import { DEFAULT_SCHEME, definitionOf, presetNamed, presets, type SchemeSettings, schemeOf } from '../presets.ts';
import { compileScheme, type Presented, type Scheme } from '../scheme.ts';
import { onlyValue } from '../signature.ts';
import { fieldOf, headerOf } from '../sources.ts';
import { urlCandidates } from '../urls.ts';
import type { SignatureField } from './fields.ts';
import { bodyReadings, secretReadings, unsetSecrets } from './readings.ts';
import { activeSecrets, type Diagnosis, holdsSecret, type RefusedRequest } from './refused.ts';
import { namedSchemeOf } from './schemes.ts';

type Judged = 'verified' | 'timestamp' | 'mismatch' | 'missing' | 'malformed' | 'body_too_large' | 'body_too_complex';

/** Judges the request as ingest does, at the time of its receipt. */
export function judge(request: RefusedRequest): Judged {
  const { settings, url, body, receivedAtMs } = request;
  // Only the default scheme works without a secret.
  if (settings.signatureScheme === DEFAULT_SCHEME && activeSecrets(request).length === 0) return 'verified';
  const scheme = schemeOf(settings);
  const presented = presentedBy(scheme, request);
  if (presented.kind !== 'digests') return presented.kind;
  if (body === null ? request.exceedsBounds : scheme.exceedsBounds?.(url, body)) return 'body_too_complex';
  if (body === null && !isToken(scheme.definition.algorithm)) return 'body_too_large';
  const keys = activeKeys(scheme.definition, request);
  const urls = scheme.usesUrl ? urlCandidates(url, scheme.definition.query) : [url];
  if (!urls.some((candidate) => signedFor(candidate, scheme, request, keys))) return 'mismatch';
  if (scheme.clock === null) return 'verified';
  const distanceMs = clockDistance(scheme.clock, presented.time, readable(request), receivedAtMs);
  return distanceMs !== null && Math.abs(distanceMs) <= scheme.clock.toleranceMs ? 'verified' : 'timestamp';
}

/** Findings, the most relevant first; at least one. */
export function* schemeFindings(request: RefusedRequest): Generator<Diagnosis> {
  const scheme = schemeOf(request.settings);
  const { definition } = scheme;
  const header = definition.header ?? null;
  const finding = (reason: Diagnosis['reason'], otherwiseValid: boolean | null): Diagnosis => ({
    reason,
    header,
    otherwiseValid,
  });
  const judged = judge(request);
  if (judged === 'verified') return yield { reason: 'verifies_now', header: null, otherwiseValid: true };
  if (judged === 'timestamp') return yield { ...finding('clock_apart', true), header: timeHeader(definition) };
  if (!isToken(definition.algorithm)) {
    const { headers } = request;
    for (let i = 0; i < headers.length; i += 2)
      if (holdsSecret(headers[i + 1]!, activeSecrets(request)))
        return yield { reason: 'secret_sent', header: headers[i]!, otherwiseValid: false };
  }
  if (judged === 'body_too_large' || judged === 'body_too_complex')
    return yield { ...finding(judged, null), ...(judged === 'body_too_complex' && { header: null }) };
  if (judged === 'missing') {
    yield* otherSchemes(request);
    return yield { ...finding('header_missing', null), header: null };
  }
  if (judged === 'malformed') {
    if (header !== null && onlyValue(request.headers, header) === null) return yield finding('header_repeated', false);
    for (const encoding of ['hex', 'base64', 'base64url'] as const)
      if (verifiesBy({ ...definition, encoding }, request)) return yield finding('signature_encoding', true);
    if (isSignedWithOtherKind(request)) return yield finding('key_kind', null);
    yield* otherSchemes(request);
    return yield finding('malformed', null);
  }
  yield* mismatches(request, scheme, finding);
  yield* otherSchemes(request);
  const reason = isTestMode(request) ? 'secret_mode' : 'digest_differs';
  yield finding(reason, false);
}

/** The mistakes that explain a well-formed signature that does not match. */
export function* mismatches(
  request: RefusedRequest,
  scheme: Scheme,
  finding: (reason: Diagnosis['reason'], otherwiseValid: boolean) => Diagnosis,
): Generator<Diagnosis> {
  const { definition } = scheme;
  const presented = presentedBy(scheme, request);
  if (presented.kind !== 'digests') return;
  const body = signedBody(definition, request);
  const keys = activeKeys(definition, request);
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
  for (const url of scheme.usesUrl ? otherUrls(request) : []) {
    if (signedFor(url, scheme, request, keys)) return yield { ...finding('url_differs', true), header: null };
  }
  if (!isToken(definition.algorithm))
    for (const [reason, reading] of bodyReadings(body))
      if (signedBy(definition, keys, presented, reading)) return yield finding(reason, true);
  if (isAsymmetric(definition.algorithm)) return;
  for (const { id, secrets } of request.others)
    if (secrets.some(fits)) return yield { ...finding('other_webhook', true), otherWebhookId: id };
  if (unsetSecrets.some((text) => fits(Buffer.from(text)))) yield finding('secret_unset', true);
}

/** Presets of another header that the request has: the sender signs by one of them. */
export function* otherSchemes(request: RefusedRequest): Generator<Diagnosis> {
  const { headers, settings } = request;
  const own = definitionOf(settings)?.header;
  const github = onlySha1(headers, own);
  if (github !== null) return yield schemeFinding(github, request);
  const candidates = presets.filter(
    ({ name, definition: { header, algorithm } }) =>
      header !== undefined &&
      header !== own &&
      !isToken(algorithm) &&
      name !== settings.signatureScheme &&
      onlyValue(headers, header) !== undefined,
  );
  const found = candidates.find(
    ({ name, definition }) =>
      !isAsymmetric(definition.algorithm) && judge({ ...request, settings: presetSettings(name, null) }) === 'verified',
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

/** GitHub's signature with SHA-1 only. Another preset uses this header too, so another header or the webhook must name GitHub. */
function onlySha1(headers: readonly string[], own: string | undefined): Pick<SignatureField, 'name' | 'named'> | null {
  const name = 'x-hub-signature';
  const isGithub = own === 'x-hub-signature-256' || onlyValue(headers, 'x-github-event') !== undefined;
  const named = isGithub ? namedSchemeOf(name, onlyValue(headers, name) ?? '') : null;
  return named === null || onlyValue(headers, 'x-hub-signature-256') !== undefined ? null : { name, named };
}

/** Finding for a signature that another scheme defines, with the secret as it is or decoded. */
export function schemeFinding(
  { name, named }: Pick<SignatureField, 'name' | 'named'>,
  request: RefusedRequest,
): Diagnosis {
  const { reason, scheme } = named!;
  const { definition } = scheme;
  const { body } = request;
  const isUnknown = body === null || isAsymmetric(definition.algorithm) || scheme.usesUrl;
  const keys = [definition, { ...definition, secret: 'text' as const }].flatMap((one) => activeKeys(one, request));
  return { reason, header: name, otherwiseValid: isUnknown ? null : signedFor('', scheme, request, keys) };
}

/** Whether the request has a signature of the other kind of key: with a secret for a webhook with a public key, or the other way round. */
function isSignedWithOtherKind(request: RefusedRequest): boolean {
  const { signatureScheme: name, publicKey } = request.settings;
  if (presetNamed(name)?.publicKeyDefinition === undefined) return false;
  return presentedBy(schemeOf(presetSettings(name, publicKey === null ? '' : null)), request).kind === 'digests';
}

function presetSettings(name: string, publicKey: string | null): SchemeSettings {
  return { signatureScheme: name, schemeDefinition: null, signatureHeader: null, publicKey, toleranceSeconds: 0 };
}

function verifiesBy(definition: SchemeDefinition, request: RefusedRequest): boolean {
  const scheme = compileScheme({ name: 'custom', definition }, 0);
  return request.body !== null && signedFor(request.url, scheme, request, activeKeys(definition, request));
}

function presentedBy(scheme: Scheme, { headers, url }: Pick<RefusedRequest, 'headers' | 'url'>): Presented {
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
  const presented = presentedBy(scheme, { ...request, url });
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

function activeKeys(definition: SchemeDefinition, request: RefusedRequest): Uint8Array[] {
  if (isAsymmetric(definition.algorithm)) {
    const key = publicKeyOf(definition, request.settings.publicKey ?? '');
    return key === null ? [] : [key];
  }
  return activeSecrets(request).flatMap((secret) => keysOf(definition, secret));
}

function timeHeader({ timestamp, header }: SchemeDefinition): string | null {
  return fieldOf(timestamp?.from) === null ? headerOf(timestamp?.from) : header!;
}

function withoutMark(secret: Buffer): Buffer {
  return Buffer.from(secret.toString('utf8').replace(/^whsec_/, ''));
}

/** URLs that the sender may have signed: the other protocol, the host that the request names, without the query, with a final slash. */
function otherUrls({ headers, url }: RefusedRequest): string[] {
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
function isTestMode({ settings, body }: RefusedRequest): boolean {
  return settings.signatureScheme === 'stripe' && /"livemode"\s*:\s*false/.test(body?.toString('latin1') ?? '');
}
