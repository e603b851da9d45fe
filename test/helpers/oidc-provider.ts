/** A real OpenID Connect provider in the process of the test, with a login form without a password. */
import { createHash, generateKeyPairSync, type JsonWebKey, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { Provider } from 'oidc-provider';
import { freePort } from './ports.ts';
import { WebClient } from './web-client.ts';

export type Claims = Record<string, unknown>;
export type SigningKey = JsonWebKey & { kid: string };

/** Audience of access tokens. */
export const API_AUDIENCE = 'https://api.weir.example';

export interface ProviderOptions {
  /** Weir's registered redirect URI. */
  redirectUris: string[];
  /** People by their login, which is also their subject. */
  people: Record<string, Claims>;
  /** True: the ID token has only the subject, and the userinfo endpoint returns the rest. */
  userInfoOnly?: boolean;
}

const apiClient = { id: 'some-script', secret: 'a secret of the script', redirectUri: 'http://127.0.0.1:1/done' };

export class TestProvider {
  readonly clientId = 'weir';
  readonly clientSecret = 'a secret between Weir and the provider';
  readonly issuer: string;
  readonly people: Record<string, Claims>;
  /** The current keys. */
  keys: SigningKey[] = makeKeys();
  /** Paths requested so far. */
  readonly requests: string[] = [];
  readonly #port: number;
  readonly #options: ProviderOptions;
  #provider: Provider;
  #server: Server | null = null;

  private constructor(port: number, options: ProviderOptions) {
    this.#port = port;
    this.issuer = `http://127.0.0.1:${port}`;
    this.#options = options;
    this.people = options.people;
    this.#provider = this.#create();
  }

  /** Chooses a port and listens on it, unless `listens` is false. */
  static async start(options: ProviderOptions, { listens = true } = {}): Promise<TestProvider> {
    const provider = new TestProvider(await freePort(), options);
    if (listens) await provider.listen();
    return provider;
  }

  listen(): Promise<void> {
    const server = createServer((request, response) => void this.#serve(request, response));
    // Otherwise it closes an idle connection after 5 s, perhaps at the moment in which the next request is sent on it.
    server.keepAliveTimeout = 0;
    this.#server = server;
    return new Promise((resolve) => server.listen(this.#port, '127.0.0.1', resolve));
  }

  /** Stops listening and closes all connections; `listen` restarts it. */
  stop(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null) return Promise.resolve();
    server.closeAllConnections();
    return new Promise((resolve) => server.close(() => resolve()));
  }

  /** Replaces the keys with new ones under new ids. */
  rotate(): void {
    this.keys = makeKeys();
    this.#provider = this.#create();
  }

  /** Submits the login form of the provider, and follows redirects until the callback. */
  async logIn(browser: WebClient, authorizationUrl: string, login: string, back: string): Promise<string> {
    const form = await browser.follow(await browser.open(authorizationUrl), back);
    if (form.location?.startsWith(back)) return form.location;
    if (!form.text.includes('<form')) throw new Error(`no login form, but ${form.status}: ${form.text}`);
    const sent = await browser.open(form.url, { login });
    const { location, status, text } = await browser.follow(sent, back);
    if (location === null) throw new Error(`the login ended with ${status}: ${text}`);
    return location;
  }

  /** An access token of a program for this person: a JWT for API_AUDIENCE. */
  async accessToken(login: string): Promise<string> {
    return (await this.#tokens(apiClient, login, { resource: API_AUDIENCE })).access_token;
  }

  /** An ID token for Weir's client, from a sign-in with Weir's scopes. */
  async idToken(login: string): Promise<string> {
    const redirectUri = this.#options.redirectUris[0]!;
    return (
      await this.#tokens({ id: this.clientId, secret: this.clientSecret, redirectUri }, login, {
        scope: 'openid profile email',
        nonce: 'n',
      })
    ).id_token;
  }

  /** The authorization code flow of a program. */
  async #tokens(
    { id, secret, redirectUri }: { id: string; secret: string; redirectUri: string },
    login: string,
    { resource, ...asked }: { resource?: string; scope?: string; nonce?: string },
  ): Promise<{ access_token: string; id_token: string }> {
    const client = { client_id: id, redirect_uri: redirectUri, ...(resource === undefined ? {} : { resource }) };
    const verifier = randomBytes(32).toString('base64url');
    const parameters = new URLSearchParams({
      ...client,
      response_type: 'code',
      scope: 'openid',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
      ...asked,
    });
    const back = await this.logIn(new WebClient(), `${this.issuer}/auth?${parameters}`, login, redirectUri);
    const code = new URL(back).searchParams.get('code')!;
    const response = await fetch(`${this.issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`)}` },
      body: new URLSearchParams({ ...client, grant_type: 'authorization_code', code, code_verifier: verifier }),
    });
    return (await response.json()) as { access_token: string; id_token: string };
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url!.split('?')[0]!;
    this.requests.push(path);
    if (!path.startsWith('/login/')) return this.#provider.callback()(request, response);
    if (request.method !== 'POST') {
      response.setHeader('content-type', 'text/html');
      response.end('<form method="post"><input name="login"></form>');
      return;
    }
    const login = new URLSearchParams(await text(request)).get('login')!;
    const result =
      login === '' ? { error: 'access_denied', error_description: 'not today' } : { login: { accountId: login } };
    await this.#provider.interactionFinished(request, response, result);
  }

  #create(): Provider {
    const { redirectUris, people, userInfoOnly = false } = this.#options;
    return new Provider(this.issuer, {
      jwks: { keys: this.keys },
      cookies: { keys: ['a key of the test'] },
      ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
      conformIdTokenClaims: userInfoOnly,
      clients: [
        { client_id: this.clientId, client_secret: this.clientSecret, redirect_uris: redirectUris },
        {
          client_id: apiClient.id,
          client_secret: apiClient.secret,
          redirect_uris: [apiClient.redirectUri],
        },
      ],
      claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'weir_role', 'realm_access'] },
      findAccount: (_context: unknown, sub: string) => ({
        accountId: sub,
        claims: () => ({ sub, ...people[sub] }),
      }),
      extraTokenClaims: (_context: unknown, { accountId }: { accountId: string }) => people[accountId],
      features: {
        devInteractions: { enabled: false },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: () => ({
            scope: '',
            audience: API_AUDIENCE,
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: 'RS256' } },
          }),
        },
      },
      interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/login/${uid}` },
      loadExistingGrant,
    });
  }
}

/** Grants consent without a prompt. */
async function loadExistingGrant({ oidc }: GrantContext): Promise<object> {
  const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
  grant.addOIDCScope('openid email profile');
  grant.addResourceScope(API_AUDIENCE, '');
  await grant.save();
  return grant;
}

interface GrantContext {
  oidc: {
    client: { clientId: string };
    session: { accountId: string };
    provider: {
      Grant: new (
        of: object,
      ) => {
        addOIDCScope(scope: string): void;
        addResourceScope(resource: string, scope: string): void;
        save(): Promise<string>;
      };
    };
  };
}

/** One key of each kind that providers use. */
function makeKeys(): SigningKey[] {
  return [
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
    generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    generateKeyPairSync('ed25519'),
  ].map(({ privateKey }) => ({
    ...privateKey.export({ format: 'jwk' }),
    kid: randomBytes(8).toString('hex'),
    use: 'sig',
  }));
}
