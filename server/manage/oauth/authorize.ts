/** Authorization requests (RFC 6749, section 4.1.1, with PKCE), and the grant with which a person answers one. */
import { randomUUID } from 'node:crypto';
import { type Problem, problem, type Result } from '../../base/http/problem.ts';
import { createCredential } from '../../model/credential.ts';
import { allows, type Role } from '../../model/users.ts';
import { type Actor, record } from '../../store/audit/record.ts';
import type { Database } from '../../store/connect/pool.ts';
import { findAgent } from '../../store/queries/agents/agents.ts';
import { insertGrant } from '../../store/queries/users/oauth.ts';
import { countTokens, everyToken, findTokenRecord, lockTokensOf } from '../../store/queries/users/tokens.ts';
import { TOKENS_MAX } from '../api/tokens/token-changes.ts';
import type { Person } from '../auth/person.ts';
import { mayRedirect, type OAuthClient, readClient } from './clients.ts';

/** Longest time between the consent and the exchange of the code. */
const CODE_SECONDS = 60;

export interface AuthorizationParts {
  database: Database;
  /** PUBLIC_URL */
  issuer: string;
  /** Address of /mcp. */
  resource: string;
  /** Keys from which tokens are derived, current first. */
  keys: readonly Buffer[];
  /** Whether another machine has a newer SECRETS_KEY than this process. */
  isKeyReplaced: () => Promise<boolean>;
}

interface AuthorizationRequest {
  kind: 'request';
  client: OAuthClient;
  redirectUri: string;
  codeChallenge: string;
  state: string | null;
}

/** A redirect to the client, with the code or an error. */
interface Answered {
  kind: 'redirect';
  to: string;
}

/**
 * A request of a known client that is not valid. Anyone can register a client, so the person decides whether the browser continues to it
 * (RFC 9700, section 4.11.2).
 */
interface FaultyRequest {
  kind: 'faulty';
  client: OAuthClient;
  redirectUri: string;
  description: string;
  /** The address of the client with the error (RFC 6749, section 4.1.2.1). */
  to: string;
}

/**
 * Reads and checks an authorization request. Without a known client and one of its addresses, the result is a problem, which the person
 * sees: no browser is sent to an address that was not checked.
 */
export async function readRequest(
  parts: AuthorizationParts,
  given: URLSearchParams,
): Promise<AuthorizationRequest | FaultyRequest | Problem> {
  const names = [...given.keys()];
  if (new Set(names).size !== names.length) return problem('invalid_request', 'A parameter is given twice.');
  const found = await readClient(parts.database, given.get('client_id') ?? '');
  if (found.kind === 'problem') return found;
  const client = found.value;
  const redirectUri = given.get('redirect_uri') ?? '';
  if (!mayRedirect(client, redirectUri))
    return problem('invalid_request', 'The redirect_uri is not one that the client has registered.');
  const state = given.get('state');
  const codeChallenge = given.get('code_challenge') ?? '';
  const refused = (error: string, description: string): FaultyRequest => {
    const { to } = answerTo(parts, { redirectUri, state }, { error, error_description: description });
    return { kind: 'faulty', client, redirectUri, description, to };
  };
  if (given.get('response_type') !== 'code') return refused('unsupported_response_type', 'response_type must be code.');
  if (given.get('code_challenge_method') !== 'S256' || !/^[\w-]{43}$/.test(codeChallenge))
    return refused('invalid_request', 'PKCE with code_challenge_method S256 is required.');
  if ((given.get('resource') ?? parts.resource) !== parts.resource)
    return refused('invalid_target', `resource must be ${parts.resource}.`);
  return { kind: 'request', client, redirectUri, codeChallenge, state };
}

/** The address of the client with the answer, the state, and the issuer, by which a client notices an answer of another server (RFC 9207). */
export function answerTo(
  { issuer }: AuthorizationParts,
  { redirectUri, state }: Pick<AuthorizationRequest, 'redirectUri' | 'state'>,
  answer: Record<string, string>,
): Answered {
  const to = new URL(redirectUri);
  for (const [name, value] of Object.entries({ ...answer, ...(state !== null && { state }), iss: issuer }))
    to.searchParams.append(name, value);
  return { kind: 'redirect', to: to.href };
}

/** What the client acts as: an agent, or the person with at most this role. */
type Acts = { agentId: string } | { role: Role };

/** Grants access to a client and returns the redirect with the code. Call it after the person has authenticated again. */
export async function grant(
  parts: AuthorizationParts,
  person: Person,
  actor: Actor,
  request: AuthorizationRequest,
  acts: Acts,
): Promise<Result<Answered>> {
  const { client, redirectUri, codeChallenge } = request;
  const agentId = 'agentId' in acts ? acts.agentId : null;
  const role = 'role' in acts ? acts.role : 'operator';
  if (!allows(person.role, role))
    return problem('forbidden', `This needs the role ${role}; your role is ${person.role}.`);
  const tokenId = randomUUID();
  const { text: code, lookupId, secretHash: codeHash } = createCredential('wc');
  return parts.database.transaction<Result<Answered>>(async (query) => {
    if (!(await lockTokensOf(query, person.id))) return problem('unauthenticated');
    if ((await countTokens(query, person.id)) >= TOKENS_MAX) return problem('tokens_too_many');
    const agent = agentId === null ? null : await findAgent(query, agentId);
    // A temporary agent is refused: its deletion would also delete the row that marks the token as one of an OAuth client.
    if (agent !== null && (agent === undefined || agent.revoked || agent.temporary)) return problem('agent_unknown');
    const { id: clientId, name } = client;
    const made = { tokenId, userId: person.id, name, role, agentId, clientId, lookupId, codeHash };
    await insertGrant(query, { ...made, resource: parts.resource, redirectUri, codeChallenge }, CODE_SECONDS);
    const after = { ...(await findTokenRecord({ query }, tokenId, everyToken))!, redirect_uri: redirectUri };
    await record(query, actor, { action: 'token.create', target: { kind: 'token', id: tokenId, name }, after });
    return { kind: 'done', value: answerTo(parts, request, { code }) };
  });
}
