/** People for tests: users with a session and an API token, created without forms. */
import { randomBytes, randomUUID } from 'node:crypto';
import { Users } from '../../server/manage/api/users/user-changes.ts';
import { Passwords } from '../../server/manage/auth/password-hash.ts';
import { cookieName, hashSessionToken } from '../../server/manage/auth/people.ts';
import { createCredential } from '../../server/model/credential.ts';
import type { Role } from '../../server/model/users.ts';
import { systemActor } from '../../server/store/audit/record.ts';
import type { TestApp } from './app.ts';

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  body: any;
  text: string;
}

export interface TestPerson {
  id: string;
  email: string;
  role: Role;
  sessionId: string;
  /** `name=value` of the session cookie. */
  cookie: string;
  /** An API token of the same role. */
  token: string;
  /** A request with the token. `path` is below the origin; a body is sent as JSON. */
  api(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** A request with the cookie, like a page of Weir's own origin sends it. */
  browse(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** The text of a page. */
  page(path: string): Promise<string>;
  /** Sends a form of a page, with its token unless the fields have one. */
  submit(path: string, fields: Fields, headers?: Record<string, string>): Promise<Submitted>;
}

type Fields = Record<string, string> | [name: string, value: string][];
interface Submitted extends Answer {
  location: string | null;
}

/** What a test app and a started Weir both have. */
type PeopledApp = Pick<TestApp, 'database' | 'url'> & { settings: Pick<TestApp['settings'], 'PUBLIC_URL'> };

/**
 * Creates a user with this role.
 * @param password without it the user has no password, and cannot confirm changes
 */
export async function addPerson(app: PeopledApp, role: Role, password?: string): Promise<TestPerson> {
  const { database, url } = app;
  const id = randomUUID();
  const email = `${role}-${id.slice(0, 8)}@example.org`;
  await database.query({
    text: 'insert into users (id, email, name, role, password_hash) values ($1, $2, $3, $4, $5)',
    values: [id, email, `A ${role}`, role, password === undefined ? null : await hashOf(password)],
  });
  const sessionToken = randomBytes(32).toString('base64url');
  const sessionId = randomUUID();
  await database.query({
    text: `insert into sessions (id, user_id, token_hash, expires_at, source_ip)
           values ($1, $2, $3, now() + interval '1 day', '127.0.0.1')`,
    values: [sessionId, id, hashSessionToken(sessionToken)],
  });
  const { token } = await addToken(app, { id }, role);
  const cookie = `${cookieName(app.settings.PUBLIC_URL)}=${sessionToken}`;
  return {
    id,
    email,
    role,
    sessionId,
    cookie,
    token,
    api: (method, path, body, headers) =>
      request(url + path, method, body, { authorization: `Bearer ${token}`, ...headers }),
    browse: async (method, path, body, headers) => {
      const origin = new URL(app.settings.PUBLIC_URL).origin;
      const csrf =
        method === 'GET' || method === 'HEAD' ? {} : { 'x-csrf-token': await csrfToken(url, cookie), origin };
      return request(url + path, method, body, { cookie, ...csrf, ...headers });
    },
    page: async (path) => (await request(url + path, 'GET', undefined, { cookie })).text,
    submit: async (path, fields, headers) => {
      const form = new URLSearchParams(fields);
      if (!form.has('csrf')) form.set('csrf', await csrfToken(url, cookie));
      const { origin } = new URL(app.settings.PUBLIC_URL);
      const type = 'application/x-www-form-urlencoded';
      const own = { cookie, origin, 'content-type': type, ...headers };
      const answer = await request(url + path, 'POST', form.toString(), own);
      return { ...answer, location: answer.headers.get('location') };
    },
  };
}

/** Creates a token without expiry, including roles that the API does not allow. */
export async function addToken(
  { database }: Pick<PeopledApp, 'database'>,
  { id: userId }: { id: string },
  role: Role,
): Promise<{ id: string; token: string }> {
  const id = randomUUID();
  const { text: token, lookupId, secretHash } = createCredential('wu');
  await database.query({
    text: 'insert into api_tokens (id, user_id, name, role, lookup_id, secret_hash) values ($1, $2, $3, $4, $5, $6)',
    values: [id, userId, 'test', role, lookupId, secretHash],
  });
  return { id, token };
}

const hashes = new Map<string, Promise<string>>();
/** Each password is hashed once. */
async function hashOf(password: string): Promise<string> {
  const known = hashes.get(password) ?? new Passwords().admit((hasher) => hasher.hash(password)).then((hash) => hash!);
  hashes.set(password, known);
  return known;
}

/** The CSRF token in the forms of this session. */
export async function csrfToken(url: string, cookie: string): Promise<string> {
  return (await request(`${url}/api/v1/account`, 'GET', undefined, { cookie })).body.csrf_token;
}

export async function request(
  url: string,
  method: string,
  body: unknown,
  headers: Record<string, string>,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    redirect: 'manual',
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = text !== '' && /[/+]json\b/.test(response.headers.get('content-type') ?? '');
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : null, text };
}

/** A password that every rule allows. */
export const PASSWORD = 'correct horse battery staple';

/** Sets a password (PASSWORD by default), as an administrator does. */
export async function givePassword(app: TestApp, { id }: { id: string }, password = PASSWORD): Promise<void> {
  const users = new Users({ database: app.database, passwords: new Passwords() }, systemActor);
  const { kind } = await users.update(id, { password });
  if (kind !== 'done') throw new Error(`the password was not set: ${kind}`);
}

/** POST /api/v1/session, like the sign-in form. */
export function signIn(
  app: TestApp,
  email: string,
  password = PASSWORD,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const origin = new URL(app.settings.PUBLIC_URL).origin;
  return request(`${app.url}/api/v1/session`, 'POST', { email, password }, { origin, ...headers });
}

/** `name=value` of the cookie that a response sets. */
export function cookieOf({ headers }: Answer): string {
  return headers.get('set-cookie')?.split(';')[0] ?? '';
}

/** The members of a resource that are not null. */
export const withoutNulls = (resource: object) =>
  Object.fromEntries(Object.entries(resource).filter(([, value]) => value !== null));

/** The newest entry of the audit log. */
export async function lastAudit({ database }: Pick<TestApp, 'database'>) {
  const [row] = await database.query<{
    entry: { action: string; actor: object; before: object | null; after: object };
  }>({ text: 'select entry from audit_log order by number desc limit 1' });
  return row!.entry;
}

/** Runs of six characters from the secret parts of a token that occur in a line of a log. */
export function leaksIn(lines: readonly string[], tokens: readonly string[]): string[] {
  const text = lines.join('\n');
  return tokens.flatMap((token) => {
    const secret = token.slice(3);
    const runs = Array.from({ length: secret.length - 5 }, (_, i) => secret.slice(i, i + 6));
    return runs.filter((run) => text.includes(run));
  });
}
