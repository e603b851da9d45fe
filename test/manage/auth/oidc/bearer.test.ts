import { createHmac, createPublicKey, generateKeyPairSync, type JsonWebKey, randomUUID } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, importJWK, type JWTHeaderParameters, type JWTPayload, SignJWT } from 'jose';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { send } from '../../../helpers/agents.ts';
import { type HostedApp, startHostedApp } from '../../../helpers/hosted.ts';
import { API_AUDIENCE, type Claims, type SigningKey } from '../../../helpers/oidc-provider.ts';
import { type Answer, request } from '../../../helpers/people.ts';
import { ofTest, shared } from '../../../helpers/shared.ts';
import { openStream } from '../../../helpers/stream.ts';
import { until } from '../../../helpers/wait.ts';

const people = { olga: { email: 'olga@example.org', name: 'Olga', weir_role: 'operator' } };
const hosted = shared(() => startHostedApp({ people }));
let rsa: SigningKey;
beforeAll(() => {
  rsa = hosted.provider.keys[0]!;
});

function call(token: string, { app }: HostedApp = hosted): Promise<Answer> {
  return request(`${app.url}/api/v1/account`, 'GET', undefined, { authorization: `Bearer ${token}` });
}

const nowSeconds = () => Math.floor(Date.now() / 1000);

/** Valid claims. */
function goodClaims(): JWTPayload {
  const now = nowSeconds();
  const { issuer } = hosted.provider;
  return { iss: issuer, aud: API_AUDIENCE, sub: 'olga', iat: now, exp: now + 300, weir_role: 'operator' };
}

/** Signed by a key of the provider, so that only one thing is wrong. */
async function signed(
  changes: Claims = {},
  {
    alg = 'RS256',
    key = rsa as JsonWebKey,
    kid = rsa.kid,
    ...header
  }: Partial<JWTHeaderParameters> & { key?: JsonWebKey } = {},
): Promise<string> {
  const payload = JSON.parse(JSON.stringify({ ...goodClaims(), ...changes }));
  return new SignJWT(payload).setProtectedHeader({ alg, kid, ...header }).sign(await importJWK(key, alg));
}

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Signed manually, because libraries refuse to. */
function handMade(header: object, sign: (input: string) => string): string {
  const input = `${encoded(header)}.${encoded(goodClaims())}`;
  return `${input}.${sign(input)}`;
}

/** A good token with another header or payload. */
async function replaced(part: 0 | 1, by: object): Promise<string> {
  const parts = (await signed()).split('.');
  parts[part] = encoded(by);
  return parts.join('.');
}

function rsaKeyPair(): JsonWebKey {
  return generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
}

const hmac = (secret: string | Buffer) => (input: string) =>
  createHmac('sha256', secret).update(input).digest('base64url');
/** Signed with a public form of the provider's RSA key, which implementations have mistaken for a secret. */
function confused(form: { format: 'pem' | 'der'; type: 'spki' } | { format: 'jwk' }): string {
  const exported = createPublicKey({ key: rsa, format: 'jwk' }).export(form as { format: 'pem'; type: 'spki' });
  const secret = form.format === 'jwk' ? JSON.stringify(exported) : exported;
  return handMade({ alg: 'HS256', kid: rsa.kid }, hmac(secret));
}

describe('an access token of the provider', () => {
  test('of a program opens the API, and its user exists from then on', async () => {
    const token = await hosted.provider.accessToken('olga');
    expect(decodeProtectedHeader(token).typ).toBe('at+jwt');
    const { status, body } = await call(token);
    expect(status).toBe(200);
    expect(body).toMatchObject({ email: 'olga@example.org', name: 'Olga', role: 'operator', csrf_token: null });
    expect((await call(token)).body.id).toBe(body.id);
  });

  test.each([
    ['RS256', 0],
    ['PS256', 0],
    ['ES256', 1],
    ['EdDSA', 2],
  ])('can be signed with %s', async (alg, place) => {
    const key = hosted.provider.keys[place]!;
    expect((await call(await signed({}, { alg, key, kid: key.kid }))).status).toBe(200);
  });

  test.each<[string, () => Claims]>([
    ['for several audiences, ours among them', () => ({ aud: ['https://other.example', API_AUDIENCE] })],
    ['whose time has just gone by, as clocks differ', () => ({ exp: nowSeconds() - 5 })],
    ['that Keycloak made, older ones with a nonce', () => ({ typ: 'Bearer', nonce: 'n' })],
  ])('%s is accepted', async (_, changes) => {
    expect((await call(await signed(changes()))).status).toBe(200);
  });

  test('has the role of its claim, and changes nothing', async () => {
    const rows = () => hosted.app.sql("select role, updated_at from users where subject = 'olga'");
    await call(await signed());
    const before = await rows();
    expect((await call(await signed({ weir_role: 'administrator' }))).body.role).toBe('administrator');
    expect((await call(await signed({ weir_role: ['viewer'] }))).body.role).toBe('viewer');
    expect(await rows()).toEqual(before);
    const list = (token: string) =>
      request(`${hosted.app.url}/api/v1/users`, 'GET', undefined, { authorization: `Bearer ${token}` });
    expect((await list(await signed({ weir_role: 'administrator' }))).status).toBe(200);
    expect((await list(await signed({ weir_role: 'operator' }))).status).toBe(403);
  });

  test('whose role differs from the stored one keeps its stream until its user is disabled', async () => {
    const sub = randomUUID();
    const { id } = (await call(await signed({ sub, weir_role: 'operator' }))).body;
    const token = await signed({ sub, weir_role: 'viewer' });
    const stream = await openStream(`${hosted.app.url}/api/v1/stream`, { authorization: `Bearer ${token}` });
    onTestFinished(() => stream.leave());
    const event = await send(await hosted.app.addWebhook());
    await stream.next('event', ({ id }) => id === event);
    const administrator = await signed({ weir_role: 'administrator' });
    const disabled = await request(
      `${hosted.app.url}/api/v1/users/${id}`,
      'PATCH',
      { disabled: true },
      { authorization: `Bearer ${administrator}` },
    );
    expect(disabled.status).toBe(200);
    await until(() => stream.ended);
  });

  test('used concurrently creates its user once', async () => {
    const sub = randomUUID();
    const token = await signed({ sub });
    const answers = await Promise.all(Array.from({ length: 10 }, () => call(token)));
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    const made = await hosted.app.sql(
      "select 1 from audit_log where action = 'user.create' and target_id = $1",
      answers[0]!.body.id,
    );
    expect(made).toHaveLength(1);
  });

  test('without a role is refused with the reason', async () => {
    const { status, body } = await call(await signed({ weir_role: undefined }));
    expect([status, body.code]).toEqual([403, 'role_missing']);
  });

  test('of a disabled user is refused', async () => {
    const sub = randomUUID();
    await call(await signed({ sub }));
    await hosted.app.sql('update users set disabled_at = now() where subject = $1', sub);
    const { status, body } = await call(await signed({ sub }));
    expect([status, body.code]).toEqual([403, 'user_disabled']);
  });
});

describe('a forged or foreign token is refused', () => {
  test.each<[string, () => string | Promise<string>]>([
    ['alg none', () => handMade({ alg: 'none' }, () => '')],
    ['alg none under a known kid', () => handMade({ alg: 'none', kid: rsa.kid }, () => '')],
    ['alg None, in another case', () => handMade({ alg: 'NoNe', kid: rsa.kid }, () => '')],
    ['HS256 with the public key in PEM as the secret', () => confused({ format: 'pem', type: 'spki' })],
    ['HS256 with the public key in DER as the secret', () => confused({ format: 'der', type: 'spki' })],
    ['HS256 with the public key as a JWK', () => confused({ format: 'jwk' })],
    ['HS256 with the client secret', () => handMade({ alg: 'HS256' }, hmac(hosted.provider.clientSecret))],
    ['an algorithm that is not allowed, by the right key', () => signed({}, { alg: 'RS384' })],
    ['another key under the same kid', () => signed({}, { key: rsaKeyPair() })],
    ['an unknown kid', () => signed({}, { key: rsaKeyPair(), kid: 'unknown' })],
    [
      'a key of its own in the header',
      () => {
        const key = rsaKeyPair();
        const jwk = createPublicKey({ key, format: 'jwk' }).export({ format: 'jwk' });
        return signed({}, { key, jwk: jwk as never });
      },
    ],
    ['an address for its key in the header', () => signed({}, { key: rsaKeyPair(), jku: 'http://127.0.0.1:1/keys' })],
    [
      'an extension that must be understood',
      () => handMade({ alg: 'RS256', kid: rsa.kid, crit: ['x'], x: 1 }, () => 'AA'),
    ],
    ['another issuer', () => signed({ iss: 'https://other.example' })],
    ['the issuer with a slash more', () => signed({ iss: `${hosted.provider.issuer}/` })],
    ['no issuer', () => signed({ iss: undefined })],
    ['an end that has gone by', () => signed({ exp: nowSeconds() - 60 })],
    ['no end', () => signed({ exp: undefined })],
    ['an end that is a text', () => signed({ exp: '9999999999' })],
    ['a beginning that has not come', () => signed({ nbf: nowSeconds() + 60 })],
    ['another audience', () => signed({ aud: 'https://other.example' })],
    ['the client as its audience, where another is set', () => signed({ aud: 'weir' })],
    ['no audience', () => signed({ aud: undefined })],
    ['no subject', () => signed({ sub: undefined })],
    ['a subject that is not text', () => signed({ sub: 7 })],
    ['a subject with a NUL', () => signed({ sub: 'olga\u0000' })],
    ['a subject that is too long', () => signed({ sub: 'a'.repeat(256) })],
    ['the type of another token', () => signed({}, { typ: 'logout+jwt' })],
    ["an ID token's hash of an access token", () => signed({ at_hash: 'x' })],
    ["an ID token's nonce", () => signed({ nonce: 'n' })],
    ["Keycloak's type of an ID token", () => signed({ typ: 'ID' })],
    ['a changed payload', () => replaced(1, { ...goodClaims(), weir_role: 'administrator' })],
    ['a changed header', () => replaced(0, { alg: 'PS256', kid: rsa.kid })],
    ['a cut signature', async () => (await signed()).slice(0, -8)],
    ['no signature', async () => (await signed()).replace(/[^.]*$/, '')],
    ['two parts', () => `${encoded({ alg: 'RS256' })}.${encoded(goodClaims())}`],
    ['five parts, as if encrypted', () => `${encoded({ alg: 'dir', enc: 'A128GCM' })}..a.b.c`],
    ['nothing that can be read', () => 'eyJ.eyJ.eyJ'],
  ])('%s', async (_, forge) => {
    // The same token without the fault is accepted.
    expect((await call(await signed())).status).toBe(200);
    const { status, body, headers } = await call(await forge());
    expect([status, body.code, headers.get('www-authenticate')]).toEqual([401, 'unauthenticated', 'Bearer']);
  });

  test('no part of it is in the log', async () => {
    const token = await signed({ aud: 'https://other.example' });
    await call(token);
    expect(hosted.app.logLines.join('')).not.toContain(token.split('.')[2]!.slice(0, 20));
  });

  test('and an ID token is refused, even if the client is the audience', async () => {
    const people = { olga: { weir_role: 'operator' } };
    const other = await ofTest(startHostedApp({ people }, { OIDC_AUDIENCE: '' }));
    const idToken = await other.provider.idToken('olga');
    const claims = decodeJwt(idToken);
    expect(claims).toMatchObject({ aud: 'weir', weir_role: 'operator' });
    expect((await call(idToken, other)).status).toBe(401);
    const [key] = other.provider.keys;
    const accessToken = await signed({ ...claims, nonce: undefined }, { key: key!, kid: key!.kid });
    expect((await call(accessToken, other)).status).toBe(200);
  });
});

describe('the keys of the provider', () => {
  const keyRequests = () => hosted.provider.requests.filter((path) => path === '/jwks').length;

  /** Simulates that this many seconds have passed. */
  function later(seconds: number): void {
    const ms = Date.now() + seconds * 1000;
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(ms);
    onTestFinished(() => void vi.useRealTimers());
  }

  test('are requested once for any number of tokens', async () => {
    await call(await signed());
    const before = keyRequests();
    const token = await signed();
    await Promise.all(Array.from({ length: 20 }, () => call(token)));
    expect(keyRequests()).toBe(before);
  });

  test('are not requested by strangers: unknown key ids cause one request in ten seconds', async () => {
    later(20);
    const before = keyRequests();
    for (let i = 0; i < 20; i++) await call(await signed({}, { key: rsaKeyPairOnce, kid: randomUUID() }));
    expect(keyRequests()).toBe(before + 1);
  });

  test('are found after a rotation, and the old ones are no longer accepted', async () => {
    const old = await signed();
    expect((await call(old)).status).toBe(200);
    hosted.provider.rotate();
    rsa = hosted.provider.keys[0]!;
    later(40);
    expect((await call(await signed())).status).toBe(200);
    expect((await call(old)).status).toBe(401);
  });

  test('are found at a sign-in at once', async () => {
    expect((await hosted.signIn('olga')).status).toBe(303);
    hosted.provider.rotate();
    rsa = hosted.provider.keys[0]!;
    expect((await hosted.signIn('olga')).status).toBe(303);
    expect((await call(await signed())).status).toBe(200);
  });
});

const rsaKeyPairOnce = rsaKeyPair();
