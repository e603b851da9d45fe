/**
 * The tokens of a grant: exchanged for its code, rotated by each refresh, and revoked together. A second use of a code or refresh token means
 * that it was stolen, so it ends the grant (RFC 9700, sections 4.5 and 4.14). A refresh that is repeated soon gets the same tokens, which are
 * derived from the refresh token, so that none is stored. If a thief repeated it, the second use of the next refresh token ends the grant.
 */
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { createCredential, derivedSecret, parseCredential } from '../../model/credential.ts';
import type { Actor } from '../../store/audit/record.ts';
import { findClient, type Grant, lockGrant, renewGrant } from '../../store/queries/users/oauth.ts';
import { everyToken } from '../../store/queries/users/tokens.ts';
import { Tokens } from '../api/tokens/token-changes.ts';
import type { AuthorizationParts } from './authorize.ts';
import { type OAuthRefusal, refusal } from './clients.ts';

/** Lifetime of an access token. A revoked grant is refused at once, whatever is left of it. */
export const ACCESS_SECONDS = 3_600;
/** A refresh may be repeated for this long: its answer was lost, or two calls of the client began one at once. */
export const REPEAT_SECONDS = 30;
/** A grant expires when it was not used for this long. */
const GRANT_SECONDS = 30 * 86_400;

/** Body of the answer (RFC 6749, section 5.1). */
interface Issued {
  kind: 'issued';
  body: { access_token: string; token_type: 'Bearer'; expires_in: number; refresh_token: string; scope: 'mcp' };
}

/** Answers a token request. @param actor author of a revocation */
export async function issueTokens(
  parts: AuthorizationParts,
  actor: Actor,
  given: URLSearchParams,
): Promise<Issued | OAuthRefusal> {
  const type = given.get('grant_type');
  if (type !== 'authorization_code' && type !== 'refresh_token')
    return refusal('unsupported_grant_type', 'grant_type must be authorization_code or refresh_token.');
  if (!(await isClient(parts, given.get('client_id') ?? '')))
    return refusal('invalid_client', 'The client is not registered, or its registration has expired.');
  const isCode = type === 'authorization_code';
  const text = given.get(isCode ? 'code' : 'refresh_token') ?? '';
  const credential = parseCredential(isCode ? 'wc' : 'wr', text);
  if (credential === null) return invalidGrant;
  const outcome = await parts.database.transaction(async (query) => {
    const found = await lockGrant(query, credential.lookupId);
    if (found === undefined || found.clientId !== given.get('client_id')) return invalidGrant;
    // A code may be in the history of a browser: nothing is derived from it.
    const next = parts.keys.map((key) => tokensAfter(isCode ? randomUUID() : text, found.lookupId, key));
    const again = next.find((tokens) => isRepeated(found, tokens));
    const fault = isCode ? codeFault(found, credential.secretHash, given) : refreshFault(found, credential.secretHash);
    if (fault !== null && again === undefined) return fault;
    // Both resources are compared: PUBLIC_URL may have changed since the grant.
    if (found.resource !== parts.resource || (given.get('resource') ?? parts.resource) !== parts.resource)
      return refusal('invalid_target', `resource must be ${parts.resource}.`);
    if (!found.holds) return invalidGrant;
    if (again !== undefined) return issued(again, Math.floor(found.accessSeconds!));
    const tokens = next[0]!;
    await renewGrant(query, found, {
      accessHash: tokens.access.secretHash,
      accessSeconds: ACCESS_SECONDS,
      refreshHash: tokens.refresh.secretHash,
      seconds: GRANT_SECONDS,
    });
    return issued(tokens, ACCESS_SECONDS);
  });
  if (outcome.kind !== 'reused') return outcome;
  if (outcome.isSoon && (await parts.isKeyReplaced())) return newerKey;
  const reason = isCode ? 'the code was used twice' : 'a refresh token was used twice';
  await new Tokens(parts.database, actor).revoke(outcome.tokenId, everyToken, reason);
  return invalidGrant;
}

/** Ends the grant of a token (RFC 7009). An unknown token needs no revocation. */
export async function revokeGrant(parts: AuthorizationParts, actor: Actor, given: URLSearchParams): Promise<void> {
  const text = given.get('token') ?? '';
  const credential = parseCredential('wr', text) ?? parseCredential('wo', text);
  if (credential === null) return;
  const found = await parts.database.transaction((query) => lockGrant(query, credential.lookupId));
  const client = given.get('client_id');
  if (found === undefined || (client !== null && client !== found.clientId)) return;
  const hashes = [found.refreshHash, found.accessHash];
  if (!hashes.some((hash) => hash !== null && timingSafeEqual(hash, credential.secretHash))) return;
  await new Tokens(parts.database, actor).revoke(found.tokenId, everyToken, 'by its client');
}

/** For a refresh that a process with a newer key answered a moment ago: this process cannot tell whether it is a repeat or a second use. */
const newerKey: OAuthRefusal = {
  ...refusal(
    'temporarily_unavailable',
    'This process has an older SECRETS_KEY than the last answer; repeat the request.',
  ),
  retryAfterSeconds: 1,
};

const invalidGrant = refusal('invalid_grant', 'The code or refresh token is not valid, has expired, or was used.');

/** Whether the id names a client. Public clients have no secret: PKCE and the token prove who asks. */
async function isClient({ database }: AuthorizationParts, id: string): Promise<boolean> {
  return id.startsWith('https:') || (await findClient(database, id)) !== undefined;
}

/** `isSoon`: a repeat would still be answered. */
type Fault = OAuthRefusal | { kind: 'reused'; tokenId: string; isSoon: boolean } | null;

function codeFault(
  { tokenId, codeHash, isCodeUsed, redirectUri, codeChallenge }: Grant,
  hash: Buffer,
  given: URLSearchParams,
): Fault {
  if (!timingSafeEqual(codeHash, hash)) return invalidGrant;
  if (isCodeUsed) return { kind: 'reused', tokenId, isSoon: false };
  const verifier = given.get('code_verifier') ?? '';
  const isVerified =
    /^[\w.~-]{43,128}$/.test(verifier) && createHash('sha256').update(verifier).digest('base64url') === codeChallenge;
  return isVerified && given.get('redirect_uri') === redirectUri ? null : invalidGrant;
}

/** The fault of a refresh token. Only tokens of the grant contain its look-up id, so another refresh token with this id is an earlier one. */
function refreshFault(grant: Grant, hash: Buffer): Fault {
  const { tokenId, refreshHash } = grant;
  if (refreshHash === null) return invalidGrant;
  return timingSafeEqual(refreshHash, hash) ? null : { kind: 'reused', tokenId, isSoon: isSoon(grant) };
}

type IssuedTokens = ReturnType<typeof tokensAfter>;

/** The tokens that follow a refresh token, the same each time. */
function tokensAfter(text: string, lookupId: string, key: Buffer) {
  const derived = (kind: 'wo' | 'wr') => createCredential(kind, lookupId, derivedSecret(`${kind} ${text}`, key));
  return { access: derived('wo'), refresh: derived('wr') };
}

/** Whether these tokens were the last answer, a moment ago. */
function isRepeated(grant: Grant, { refresh }: IssuedTokens): boolean {
  return grant.refreshHash !== null && timingSafeEqual(grant.refreshHash, refresh.secretHash) && isSoon(grant);
}

/** Whether the last answer was within REPEAT_SECONDS. */
function isSoon({ accessSeconds }: Grant): boolean {
  return accessSeconds! > ACCESS_SECONDS - REPEAT_SECONDS;
}

function issued({ access, refresh }: IssuedTokens, expires_in: number): Issued {
  const tokens = { access_token: access.text, refresh_token: refresh.text };
  return { kind: 'issued', body: { ...tokens, token_type: 'Bearer', expires_in, scope: 'mcp' } };
}
