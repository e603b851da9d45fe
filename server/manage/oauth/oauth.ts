/**
 * OAuth 2.1 for /mcp: Weir is the authorization server of its own resource. The metadata (RFC 8414, RFC 9728), the endpoints for clients,
 * and who presents an access token. The page on which a person decides is pages/account/authorize.ts.
 *
 * Without a library: `@node-oauth/oauth2-server` asks for a model of twelve functions, which would be the statements and checks here, and has
 * neither registration, metadata, resources, `iss` nor the revocation of what was used twice.
 */
import { timingSafeEqual } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { OPEN_BODY_BYTES_MAX, type Parsed, ParsedBody } from '../../base/http/parsed-body.ts';
import type { Problem } from '../../base/http/problem.ts';
import { overLimit } from '../../base/http/rate-limit.ts';
import type { RouteHandler } from '../../base/http/route.ts';
import { StoredText } from '../../base/http/stored-text.ts';
import type { Policy, RateLimiter } from '../../base/ratelimit/limiter.ts';
import { parseCredential } from '../../model/credential.ts';
import { type Grant, readGrants } from '../../store/queries/users/oauth.ts';
import { SharedLookup } from '../../store/shared-lookup.ts';
import type { AgentAuth } from '../auth/agent.ts';
import type { AnonymousLimit } from '../auth/anonymous.ts';
import { type Reader, visitorActor } from '../auth/person.ts';
import type { AuthorizationParts } from './authorize.ts';
import { type OAuthRefusal, refusal, registerClient } from './clients.ts';
import { issueTokens, revokeGrant } from './tokens.ts';

/** Limit on consent, tokens and revocation of one client address. A connector in a cloud serves many people from few addresses. */
export const oauthPolicy: Policy = { name: 'oauth', max: 120, windowSeconds: 60 };
export const registrationPolicy: Policy = { name: 'oauth-register', max: 20, windowSeconds: 3_600 };

interface OAuthParts extends AuthorizationParts {
  limiter: RateLimiter;
  anonymous: AnonymousLimit;
  agentAuth: AgentAuth;
}

export class OAuth {
  readonly parts: OAuthParts;
  readonly #grants: SharedLookup<Grant>;

  constructor(parts: OAuthParts) {
    this.parts = parts;
    this.#grants = new SharedLookup((ids) => readGrants(parts.database, ids));
  }

  /** WWW-Authenticate of a 401 of /mcp (RFC 9728, section 5.1). */
  get challenge(): string {
    return `Bearer resource_metadata="${this.parts.issuer}${RESOURCE_METADATA}/mcp", scope="mcp"`;
  }

  /** Whether a bearer has the form of an access token. */
  issued(token: string): boolean {
    return parseCredential('wo', token) !== null;
  }

  /** Returns the user or agent that a client with this access token acts as; null: the token is not valid. */
  async reader(exchange: Exchange, token: string): Promise<Reader | Problem | null> {
    const credential = parseCredential('wo', token);
    if (credential === null) return null;
    const found = await this.#grants.find(credential.lookupId);
    if (!found?.accessHash || !timingSafeEqual(found.accessHash, credential.secretHash)) return null;
    if (!(found.accessSeconds! > 0) || !found.holds || found.resource !== this.parts.resource) return null;
    const { id, email, name, tokenId, tokenRole: role, agentId } = found;
    if (agentId !== null) return this.parts.agentAuth.byId(exchange, agentId);
    return { kind: 'user', person: { id, email, name, role, via: { kind: 'token', tokenId } } };
  }

  /** Handlers by the names of their routes. */
  handlers(): Record<'oauthResource' | 'oauthServer' | 'oauthToken' | 'oauthRevoke' | 'oauthRegister', RouteHandler> {
    const { parts } = this;
    const { anonymous, issuer, resource } = parts;
    const document = (content: object) => {
      const stored = new StoredText('application/json', () => JSON.stringify(content));
      return anonymous.document((exchange) => stored.answer(exchange));
    };
    return {
      oauthResource: document({
        resource,
        resource_name: 'Weir',
        authorization_servers: [issuer],
        bearer_methods_supported: ['header'],
        scopes_supported: ['mcp'],
      }),
      oauthServer: document({
        issuer,
        authorization_endpoint: `${issuer}/oauth/authorize`,
        token_endpoint: `${issuer}/oauth/token`,
        registration_endpoint: `${issuer}/oauth/register`,
        revocation_endpoint: `${issuer}/oauth/revoke`,
        response_types_supported: ['code'],
        response_modes_supported: ['query'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_methods_supported: ['none'],
        revocation_endpoint_auth_methods_supported: ['none'],
        code_challenge_methods_supported: ['S256'],
        scopes_supported: ['mcp'],
        authorization_response_iss_parameter_supported: true,
        client_id_metadata_document_supported: true,
      }),
      oauthToken: this.#endpoint(oauthPolicy, formOf, async (form, exchange) => {
        const outcome = await issueTokens(parts, visitorActor(exchange), form);
        if (outcome.kind === 'refused') refuse(exchange, outcome);
        else exchange.json(200, outcome.body);
      }),
      oauthRevoke: this.#endpoint(oauthPolicy, formOf, async (form, exchange) => {
        await revokeGrant(parts, visitorActor(exchange), form);
        exchange.answer(200, 'text/plain', '');
      }),
      oauthRegister: this.#endpoint(
        registrationPolicy,
        (body) => body.json(),
        async (metadata, exchange) => {
          const outcome = await registerClient(parts.database, metadata);
          if (outcome.kind === 'refused') return refuse(exchange, outcome);
          const { id, name, redirectUris } = outcome.value;
          exchange.json(201, {
            client_id: id,
            client_id_issued_at: Math.floor(Date.now() / 1000),
            client_name: name,
            redirect_uris: redirectUris,
            grant_types: ['authorization_code', 'refresh_token'],
            response_types: ['code'],
            token_endpoint_auth_method: 'none',
            scope: 'mcp',
          });
        },
      ),
    };
  }

  /** An endpoint for clients: within a limit, with a small body. */
  #endpoint<Body>(
    policy: Policy,
    read: (body: ParsedBody) => Promise<Parsed<Body>>,
    answer: (body: Body, exchange: Exchange) => Promise<void>,
  ): RouteHandler {
    return async (exchange) => {
      const body = new ParsedBody(exchange, OPEN_BODY_BYTES_MAX);
      try {
        const over = await overLimit(exchange, this.parts.limiter, policy);
        if (over !== null) return exchange.problem(over);
        const given = await read(body);
        if (given.kind === 'parsed') await answer(given.value, exchange);
        else if (given.kind === 'problem' && given.retryAfterSeconds !== undefined) exchange.problem(given);
        else if (given.kind === 'problem') refuse(exchange, refusal('invalid_request', given.detail ?? given.code));
      } finally {
        body.release();
      }
    };
  }
}

const RESOURCE_METADATA = '/.well-known/oauth-protected-resource';

/** Reads the form, which has each parameter at most once (RFC 6749, section 3.2). */
async function formOf(body: ParsedBody): Promise<Parsed<URLSearchParams>> {
  const form = await body.form();
  if (form.kind !== 'parsed' || new Set(form.value.keys()).size === [...form.value.keys()].length) return form;
  return { kind: 'problem', code: 'invalid_request', detail: 'A parameter is given twice.' };
}

function refuse(exchange: Exchange, { error, description, retryAfterSeconds }: OAuthRefusal): void {
  if (retryAfterSeconds !== undefined) exchange.setHeader('retry-after', String(retryAfterSeconds));
  exchange.json(retryAfterSeconds === undefined ? 400 : 503, { error, error_description: description });
}
