/**
 * The OpenID Connect provider: its metadata (OpenID Connect Discovery 1.0) and keys, fetched on first use and cached. The
 * provider may be unavailable, also at startup: callers then get a retry time, and no request is sent to it before that time.
 */
import { createRemoteJWKSet, customFetch, type FetchImplementation, type RemoteJWKSet } from 'jose';
import * as oidc from 'openid-client';
import { ProblemError, problemLater } from '../../../base/http/problem.ts';
import { backoffMs } from '../../../base/time/backoff.ts';

/** Accepted clock difference between Weir and the provider. */
export const CLOCK_TOLERANCE_SECONDS = 30;
/** Accepted signature algorithms. Only asymmetric ones, so that a public key is never used as a shared secret. */
export const signingAlgorithms = ['RS256', 'PS256', 'ES256', 'EdDSA'];

const REQUEST_TIMEOUT_SECONDS = 5;
/** The provider's endpoints may change. The cached ones are used until discovery succeeds again. */
const DISCOVERY_MAX_AGE_MS = 3_600_000;
/** A key that the provider has withdrawn is accepted for at most this long. */
const KEYS_MAX_AGE_MS = 600_000;
/** Anyone can make tokens with unknown keys. They cause at most one request to the provider in this time. */
const KEYS_COOLDOWN_MS = 10_000;
const backoff = { firstMs: 1_000, maxMs: 30_000 };

interface ProviderParts {
  issuer: string;
  clientId: string;
  clientSecret: string;
  /** Longest request to the provider; default: REQUEST_TIMEOUT_SECONDS. */
  requestTimeoutSeconds?: number | undefined;
  /** Called when the provider becomes available or unavailable. */
  onChange: (up: boolean, reason?: string) => void;
}

/** A provider whose metadata is loaded. */
export interface KnownProvider {
  /** Exactly as in the `iss` claim of its tokens. */
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

  /** Returns the provider. Rejects with ProblemError (identity_provider_unavailable) if discovery has never succeeded. */
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
    // Keep the cached keys while jwks_uri is unchanged.
    const before = this.#known?.provider;
    const keys =
      before?.config.serverMetadata().jwks_uri === jwks_uri
        ? before!.keys
        : createRemoteJWKSet(jwksUri, {
            timeoutDuration: (this.#parts.requestTimeoutSeconds ?? REQUEST_TIMEOUT_SECONDS) * 1000,
            cacheMaxAge: KEYS_MAX_AGE_MS,
            cooldownDuration: KEYS_COOLDOWN_MS,
            [customFetch]: (url, options) => this.#keys.run(() => fetchKeys(url, options)),
          });
    const provider = { issuer, config, keys };
    this.#known = { provider, staleAtMs: Date.now() + DISCOVERY_MAX_AGE_MS };
    return provider;
  }
}

/** Runs discovery. Rejects when the provider is unavailable or its metadata cannot be used. */
export async function discover({
  issuer,
  clientId,
  clientSecret,
  requestTimeoutSeconds = REQUEST_TIMEOUT_SECONDS,
}: Omit<ProviderParts, 'onChange'>) {
  const url = new URL(issuer);
  const config = await oidc.discovery(
    url,
    clientId,
    { client_secret: clientSecret, [oidc.clockTolerance]: CLOCK_TOLERANCE_SECONDS },
    clientAuthentication(clientSecret),
    {
      timeout: requestTimeoutSeconds,
      execute: url.protocol === 'http:' ? [oidc.allowInsecureRequests] : [],
    },
  );
  const { jwks_uri, authorization_endpoint, token_endpoint } = config.serverMetadata();
  for (const [name, address] of Object.entries({ jwks_uri, authorization_endpoint, token_endpoint })) {
    if (address === undefined) throw new Error(`the provider does not publish ${name}`);
    if (new URL(address).protocol !== 'https:' && url.protocol === 'https:')
      throw new Error(`the provider's ${name} is not an https URL`);
  }
  return config;
}

/** Uses client_secret_basic, which every provider must support (RFC 6749, section 2.3.1), unless the metadata excludes it. */
function clientAuthentication(clientSecret: string): oidc.ClientAuth {
  const basic = oidc.ClientSecretBasic(clientSecret);
  const post = oidc.ClientSecretPost(clientSecret);
  return (server, ...rest) =>
    (server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']).includes('client_secret_basic')
      ? basic(server, ...rest)
      : post(server, ...rest);
}

/** Fetches the keys. The response is parsed here, so that one without keys counts as a failed attempt too. */
async function fetchKeys(...request: Parameters<FetchImplementation>): Promise<Response> {
  const response = await fetch(...request);
  if (response.status !== 200) throw new Error(`the request for the provider's keys was answered ${response.status}`);
  const document = (await response.json()) as { keys?: unknown };
  if (!Array.isArray(document?.keys)) throw new Error("the provider's keys are not a JSON Web Key Set");
  return Response.json(document);
}

/** Requests of one kind to the provider, with exponential backoff after a failure. */
class Attempts {
  readonly #onChange: ProviderParts['onChange'];
  #failures = 0;
  #againAtMs = 0;
  #waitMs = 0;

  constructor(onChange: ProviderParts['onChange']) {
    this.#onChange = onChange;
  }

  async run<T>(attempt: () => Promise<T>): Promise<T> {
    const leftMs = this.#againAtMs - Date.now();
    // A longer time than the wait itself means that the clock was set back.
    if (leftMs > 0 && leftMs <= this.#waitMs) throw providerAway(leftMs);
    try {
      const result = await attempt();
      this.#failures = 0;
      this.#onChange(true);
      return result;
    } catch (error) {
      const waitMs = backoffMs(this.#failures++, backoff, Math.random());
      this.#againAtMs = Date.now() + waitMs;
      this.#waitMs = waitMs;
      this.#onChange(false, describeError(error));
      throw providerAway(waitMs, error);
    }
  }
}

/** The error for a provider that is unavailable. @param waitMs time until the next request to the provider is allowed */
export function providerAway(waitMs: number, cause?: unknown): ProblemError {
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new ProblemError(problemLater('identity_provider_unavailable', retryAfterSeconds), cause);
}

/**
 * Describes an error for operators: its message, its causes, and the OAuth error fields (RFC 6749, section 5.2). Never contains a
 * secret.
 */
export function describeError(error: unknown): string {
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

/**
 * Returns the provider's sign-out URL for a browser that was signed out of Weir; the provider redirects back to the pages. Null:
 * the provider has no such endpoint or is unavailable. Neither prevents the sign-out from Weir.
 */
export async function signOutAddress(provider: Provider, publicUrl: string): Promise<string | null> {
  try {
    const { config } = await provider.find();
    if (config.serverMetadata().end_session_endpoint === undefined) return null;
    return oidc.buildEndSessionUrl(config, { post_logout_redirect_uri: `${publicUrl}/` }).href;
  } catch (error) {
    if (error instanceof ProblemError) return null;
    throw error;
  }
}
