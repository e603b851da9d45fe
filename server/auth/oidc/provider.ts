/**
 * The OpenID Connect provider: what it says of itself (OpenID Connect Discovery 1.0) and its keys, fetched when first needed and
 * kept. It may be away, at the start too: then whoever needs it is told when to come again, and meanwhile nobody knocks.
 */
import { createRemoteJWKSet, customFetch, type FetchImplementation, type RemoteJWKSet } from 'jose';
import * as oidc from 'openid-client';
import { Refused } from '../../http/refused.ts';
import { backoffMs } from '../../net/backoff.ts';

/** Our clock and the provider's may differ by so much. */
export const CLOCK_TOLERANCE_SECONDS = 30;
/** What a sign-in or a token may be signed with: asymmetric alone, so that a public key is never taken for a shared secret. */
export const signingAlgorithms = ['RS256', 'PS256', 'ES256', 'EdDSA'];

const REQUEST_TIMEOUT_SECONDS = 5;
/** Endpoints may move; until the new ones are known the old ones serve. */
const DISCOVERY_MAX_AGE_MS = 3_600_000;
/** A key that the provider took back is believed for no longer. */
const KEYS_MAX_AGE_MS = 600_000;
/** Tokens under unknown keys, which anybody can make, lead to one request to the provider in so long. */
const KEYS_COOLDOWN_MS = 10_000;
const backoff = { firstMs: 1_000, maxMs: 30_000 };

interface ProviderParts {
  issuer: string;
  clientId: string;
  clientSecret: string;
  /** Called when it was found to answer, or not to, otherwise than before. */
  onChange: (up: boolean, reason?: string) => void;
}

/** The provider as it was found. */
export interface KnownProvider {
  /** Exactly as its tokens name it. */
  issuer: string;
  config: oidc.Configuration;
  keys: RemoteJWKSet;
}

export class Provider {
  readonly #parts: ProviderParts;
  readonly #discovery: Attempts;
  readonly #keys: Attempts;
  #known: { provider: KnownProvider; staleAtMs: number } | null = null;
  #underWay: Promise<KnownProvider> | null = null;

  constructor(parts: ProviderParts) {
    this.#parts = parts;
    let wasUp: boolean | null = null;
    const onChange = (up: boolean, reason?: string) => {
      if (up !== wasUp) parts.onChange(up, reason);
      wasUp = up;
    };
    this.#discovery = new Attempts(onChange);
    this.#keys = new Attempts(onChange);
  }

  /** Rejects with Refused (identity_provider_unavailable) while it was never found. */
  async find(): Promise<KnownProvider> {
    if (this.#known !== null && Date.now() < this.#known.staleAtMs) return this.#known.provider;
    this.#underWay ??= this.#discover().finally(() => {
      this.#underWay = null;
    });
    if (this.#known === null) return this.#underWay;
    this.#underWay.catch(() => {});
    return this.#known.provider;
  }

  async #discover(): Promise<KnownProvider> {
    const config = await this.#discovery.run(() => discover(this.#parts));
    const { issuer, jwks_uri } = config.serverMetadata();
    const jwksUri = new URL(jwks_uri!);
    // Keys that were fetched already stay as long as they stay in one place.
    const before = this.#known?.provider;
    const keys =
      before?.config.serverMetadata().jwks_uri === jwks_uri
        ? before!.keys
        : createRemoteJWKSet(jwksUri, {
            timeoutDuration: REQUEST_TIMEOUT_SECONDS * 1000,
            cacheMaxAge: KEYS_MAX_AGE_MS,
            cooldownDuration: KEYS_COOLDOWN_MS,
            [customFetch]: (url, options) => this.#keys.run(() => fetchKeys(url, options)),
          });
    const provider = { issuer, config, keys };
    this.#known = { provider, staleAtMs: Date.now() + DISCOVERY_MAX_AGE_MS };
    return provider;
  }
}

/** Asks the provider what it is. Rejects when it is away, or says what cannot be worked with. */
export async function discover({ issuer, clientId, clientSecret }: Omit<ProviderParts, 'onChange'>) {
  const url = new URL(issuer);
  const config = await oidc.discovery(
    url,
    clientId,
    { client_secret: clientSecret, [oidc.clockTolerance]: CLOCK_TOLERANCE_SECONDS },
    clientAuthentication(clientSecret),
    {
      timeout: REQUEST_TIMEOUT_SECONDS,
      execute: url.protocol === 'http:' ? [oidc.allowInsecureRequests] : [],
    },
  );
  const { jwks_uri, authorization_endpoint, token_endpoint } = config.serverMetadata();
  for (const [name, address] of Object.entries({ jwks_uri, authorization_endpoint, token_endpoint })) {
    if (address === undefined) throw new Error(`the provider names no ${name}`);
    if (new URL(address).protocol !== 'https:' && url.protocol === 'https:')
      throw new Error(`the provider's ${name} is no https address`);
  }
  return config;
}

/** The way that every provider must know (RFC 6749, section 2.3.1), unless this one says that it does not. */
function clientAuthentication(clientSecret: string): oidc.ClientAuth {
  const basic = oidc.ClientSecretBasic(clientSecret);
  const post = oidc.ClientSecretPost(clientSecret);
  return (server, ...rest) =>
    (server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']).includes('client_secret_basic')
      ? basic(server, ...rest)
      : post(server, ...rest);
}

/** Looked into here, so that an answer that holds no keys counts as a failed attempt too. */
async function fetchKeys(...request: Parameters<FetchImplementation>): Promise<Response> {
  const response = await fetch(...request);
  if (response.status !== 200) throw new Error(`the provider's keys were answered ${response.status}`);
  const document = (await response.json()) as { keys?: unknown };
  if (!Array.isArray(document?.keys)) throw new Error("the provider's keys are no JSON Web Key Set");
  return Response.json(document);
}

/** Requests to the provider of one kind: after a failed one there is none for a while, longer each time. */
class Attempts {
  readonly #onChange: ProviderParts['onChange'];
  #failures = 0;
  #againAtMs = 0;

  constructor(onChange: ProviderParts['onChange']) {
    this.#onChange = onChange;
  }

  async run<T>(attempt: () => Promise<T>): Promise<T> {
    if (Date.now() < this.#againAtMs) throw providerAway(this.#againAtMs - Date.now());
    try {
      const result = await attempt();
      this.#failures = 0;
      this.#onChange(true);
      return result;
    } catch (error) {
      const waitMs = backoffMs(this.#failures++, backoff, Math.random());
      this.#againAtMs = Date.now() + waitMs;
      this.#onChange(false, reasonOf(error));
      throw providerAway(waitMs, error);
    }
  }
}

export function providerAway(waitMs: number, cause?: unknown): Refused {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new Refused('identity_provider_unavailable', { cause, retryAfterSeconds });
}

/** What went wrong, for operators: the message, what lies under it, and the words of OAuth (RFC 6749, section 5.2); never a secret. */
export function reasonOf(error: unknown): string {
  const words: unknown[] = [];
  for (let each = error; each instanceof Error && words.length < 8; each = each.cause) {
    const { code, error: oauthError, error_description } = each as Error & Record<string, unknown>;
    words.push(each.message || code || each.name, oauthError, error_description);
  }
  return words
    .filter((word) => typeof word === 'string')
    .join(': ')
    .slice(0, 500);
}
