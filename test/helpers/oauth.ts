/** A client of OAuth for tests, with each step by itself: registration, authorization request, consent of a person, tokens. */
import { createHash, randomBytes } from 'node:crypto';
import { type Overrides, startTestApp, type TestApp } from './app.ts';
import { PASSWORD, request, type TestPerson } from './people.ts';
import { freePort } from './ports.ts';

/** PUBLIC_URL is the listen address: clients compare it with the metadata. */
export async function startOAuthApp(overrides: Overrides = {}): Promise<TestApp> {
  const port = await freePort();
  const own = {
    PORT: port,
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    OAUTH_ENABLED: 'true',
    TRUSTED_PROXIES: '127.0.0.1',
  };
  return startTestApp({ ...own, RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000, ...overrides });
}

export const REDIRECT = 'https://client.example/callback';

let addresses = 0;
/** A client address of its own: limits count the requests of one test alone. */
export const elsewhere = () => `2001:db8:${(++addresses).toString(16)}::1`;

export interface Tokens {
  access_token: string;
  refresh_token: string;
  [member: string]: unknown;
}

export class OAuthClient {
  readonly app: TestApp;
  readonly id: string;
  readonly redirect: string;
  readonly verifier = randomBytes(32).toString('base64url');
  readonly #from: string;

  constructor(app: TestApp, id: string, redirect = REDIRECT, from = elsewhere()) {
    this.app = app;
    this.id = id;
    this.redirect = redirect;
    this.#from = from;
  }

  static async register(app: TestApp, redirect = REDIRECT, name = 'Test client'): Promise<OAuthClient> {
    const from = elsewhere();
    const answer = await register(app, { client_name: name, redirect_uris: [redirect] }, from);
    if (answer.status !== 201) throw new Error(`the registration was answered ${answer.status}: ${answer.text}`);
    return new OAuthClient(app, answer.body.client_id, redirect, from);
  }

  /** Parameters of the authorization request; null leaves one out. */
  query(changed: Record<string, string | null> = {}): string {
    const given = {
      response_type: 'code',
      client_id: this.id,
      redirect_uri: this.redirect,
      code_challenge: createHash('sha256').update(this.verifier).digest('base64url'),
      code_challenge_method: 'S256',
      state: 'a state',
      resource: `${this.app.settings.PUBLIC_URL}/mcp`,
      ...changed,
    };
    const present = Object.entries(given).filter((pair): pair is [string, string] => pair[1] !== null);
    return new URLSearchParams(present).toString();
  }

  /** The page of the authorization request. */
  ask(person: TestPerson, changed: Record<string, string | null> = {}) {
    return person.browse('GET', `/oauth/authorize?${this.query(changed)}`, undefined, this.#headers);
  }

  /** Sends the form of the page. */
  decide(person: TestPerson, fields: Record<string, string>, changed: Record<string, string | null> = {}) {
    const form = { request: this.query(changed), decision: 'allow', current_password: PASSWORD, ...fields };
    return person.submit('/oauth/authorize', form, this.#headers);
  }

  /** The code after a consent. */
  async code(person: TestPerson, fields: Record<string, string>): Promise<string> {
    const { location, text } = await this.decide(person, fields);
    if (location === null) throw new Error(`no redirect: ${text}`);
    return new URL(location).searchParams.get('code')!;
  }

  post(path: 'token' | 'revoke', given: Record<string, string>) {
    const type = 'application/x-www-form-urlencoded';
    const body = new URLSearchParams({ client_id: this.id, ...given }).toString();
    return request(`${this.app.url}/oauth/${path}`, 'POST', body, { 'content-type': type, ...this.#headers });
  }

  exchange(code: string, changed: Record<string, string> = {}) {
    const pkce = { code_verifier: this.verifier, redirect_uri: this.redirect };
    return this.post('token', { grant_type: 'authorization_code', code, ...pkce, ...changed });
  }

  refresh(refresh_token: string, changed: Record<string, string> = {}) {
    return this.post('token', { grant_type: 'refresh_token', refresh_token, ...changed });
  }

  /** The tokens after a consent. */
  async tokens(person: TestPerson, fields: Record<string, string>): Promise<Tokens> {
    const answer = await this.exchange(await this.code(person, fields));
    if (answer.status !== 200) throw new Error(`the code was answered ${answer.status}: ${answer.text}`);
    return answer.body;
  }

  get #headers(): Record<string, string> {
    return { 'x-forwarded-for': this.#from };
  }
}

export function register({ url }: Pick<TestApp, 'url'>, metadata: unknown, from = elsewhere()) {
  return request(`${url}/oauth/register`, 'POST', metadata, { 'x-forwarded-for': from });
}
