/** What clients and strangers try against OAuth. Each is refused where it is tried, and what was stolen ends. */
import { describe, expect, test } from 'vitest';
import { CLIENTS_MAX } from '../../../server/manage/oauth/clients.ts';
import { registrationPolicy } from '../../../server/manage/oauth/oauth.ts';
import { ACCESS_SECONDS, REPEAT_SECONDS } from '../../../server/manage/oauth/tokens.ts';
import { loadSecretsKeys, recordKeys } from '../../../server/store/secrets/keys.ts';
import { fingerprintOf } from '../../../server/store/secrets/seal.ts';
import { startTestApp } from '../../helpers/app.ts';
import { post } from '../../helpers/mcp.ts';
import { elsewhere, OAuthClient, REDIRECT, register, startOAuthApp } from '../../helpers/oauth.ts';
import { addPerson, PASSWORD, request } from '../../helpers/people.ts';
import { someKey } from '../../helpers/settings.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { problemShown } from '../../helpers/web-client.ts';

const app = shared(startOAuthApp);
const person = shared(() => addPerson(app, 'operator', PASSWORD));
const access = { access: 'viewer' };
const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
const works = async (token: string) => (await post(app.url, token, list)).status === 200;
/** Lets time pass for the tokens of a grant. */
const ageTokens = ({ refresh_token }: { refresh_token: string }, seconds: number) =>
  app.sql(
    `update oauth_grants set access_expires_at = access_expires_at - make_interval(secs => $2)
     where token_id = (select id from api_tokens where lookup_id = $1)`,
    refresh_token.split('_')[1],
    seconds,
  );

describe('an authorization request', () => {
  test.each([
    ['another path', `${REDIRECT}/`],
    ['a query', `${REDIRECT}?a=b`],
    ['another host', 'https://client.example.evil.example/callback'],
    ['http', 'http://client.example/callback'],
    ['another case', 'https://client.example/Callback'],
    ['a script', 'javascript:alert(1)'],
    ['none', null],
  ])('a redirect_uri with %s: a page here, and no redirect', async (_, redirect_uri) => {
    const client = await OAuthClient.register(app);
    const shown = await client.ask(person, { redirect_uri });
    expect([shown.headers.get('location'), ...problemShown(shown)]).toEqual([null, 422, 'invalid_request']);
    const sent = await client.decide(person, access, { redirect_uri });
    expect([sent.location, sent.status]).toEqual([null, 422]);
  });

  test('on loopback any port is allowed, another path or name is not', async () => {
    const client = await OAuthClient.register(app, 'http://127.0.0.1:3000/callback');
    const status = async (redirect_uri: string) => (await client.ask(person, { redirect_uri })).status;
    expect(await status('http://127.0.0.1:55555/callback')).toBe(200);
    expect(await status('http://127.0.0.1/callback')).toBe(200);
    expect(await status('http://localhost:3000/callback')).toBe(422);
    expect(await status('http://127.0.0.1:3000/other')).toBe(422);
    expect(await status('http://127.0.0.1:3000@evil.example/callback')).toBe(422);
  });

  test.each([
    ['no challenge', { code_challenge: null }, 'invalid_request'],
    ['the method plain', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['no method, which means plain', { code_challenge_method: null }, 'invalid_request'],
    ['the implicit flow', { response_type: 'token' }, 'unsupported_response_type'],
    ['another resource', { resource: 'https://other.example/mcp' }, 'invalid_target'],
  ])('%s: the client gets the error when the person continues to it', async (_, changed, error) => {
    const client = await OAuthClient.register(app);
    const shown = await client.ask(person, changed);
    expect([shown.status, shown.headers.get('location')]).toEqual([422, null]);
    expect(shown.text).toMatch(/its request is not valid: .*Continue to client\.example</s);
    expect(shown.text).not.toContain('Allow access');
    const { location } = await client.decide(person, access, changed);
    const { origin, searchParams } = new URL(location!);
    expect([origin, searchParams.get('error'), searchParams.get('iss'), searchParams.get('code')]).toEqual([
      'https://client.example',
      error,
      app.settings.PUBLIC_URL,
      null,
    ]);
  });

  test('an unknown client, and a parameter that is given twice', async () => {
    const client = new OAuthClient(app, '0198f5f0-0000-4000-8000-000000000000');
    expect(problemShown(await client.ask(person))).toEqual([422, 'invalid_request']);
    const known = await OAuthClient.register(app);
    const twice = await person.browse('GET', `/oauth/authorize?${known.query()}&redirect_uri=https://evil.example/`);
    expect(problemShown(twice)).toEqual([422, 'invalid_request']);
  });

  test.each([
    'https://127.0.0.1/client.json',
    'https://169.254.169.254/latest/meta-data',
    'https://localhost/x',
    'https://[::1]/x',
  ])('a client id metadata document at %s is not fetched', async (id) => {
    const shown = await new OAuthClient(app, id).ask(person);
    expect([...problemShown(shown), shown.text.includes('cannot be read')]).toEqual([422, 'invalid_request', true]);
  });
});

describe('the consent', () => {
  test('cannot be framed, and its form leads to the client and nowhere else', async () => {
    const { headers } = await (await OAuthClient.register(app)).ask(person);
    const policy = headers.get('content-security-policy')!;
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).toContain("form-action 'self' https://client.example;");
    expect((await person.browse('GET', '/account')).headers.get('content-security-policy')).toContain(
      "form-action 'self';",
    );
  });

  test('needs the token of the form, and the password', async () => {
    const client = await OAuthClient.register(app);
    const forged = await client.decide(person, { ...access, csrf: 'guessed' });
    expect([forged.location, ...problemShown(forged)]).toEqual([null, 403, 'csrf_refused']);
    const wrong = await client.decide(person, { ...access, current_password: 'wrong' });
    expect([wrong.location, wrong.status]).toEqual([null, 403]);
    expect(wrong.text).toContain('This is not your password.');
  });

  test('an API token is not a person', async () => {
    const client = await OAuthClient.register(app);
    const authorization = `Bearer ${person.token}`;
    const { status } = await request(`${app.url}/oauth/authorize?${client.query()}`, 'GET', undefined, {
      authorization,
    });
    expect(status).toBe(403);
  });

  test('a name that the client gives itself is text', async () => {
    const client = await OAuthClient.register(app, REDIRECT, '<img src=x onerror=alert(1)>');
    expect((await client.ask(person)).text).not.toContain('<img src=x');
  });
});

describe('a code', () => {
  test('used twice: the second use is refused, and the tokens of the first end', async () => {
    const client = await OAuthClient.register(app);
    const code = await client.code(person, access);
    const { body } = await client.exchange(code);
    expect(await works(body.access_token)).toBe(true);
    expect((await client.exchange(code)).body.error).toBe('invalid_grant');
    expect(await works(body.access_token)).toBe(false);
    expect((await client.refresh(body.refresh_token)).body.error).toBe('invalid_grant');
  });

  test('two uses at once: at most one gets tokens, and they end', async () => {
    const client = await OAuthClient.register(app);
    const code = await client.code(person, access);
    const answers = await Promise.all([client.exchange(code), client.exchange(code)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400]);
    expect(await works(answers.find(({ status }) => status === 200)!.body.access_token)).toBe(false);
  });

  test.each([
    ['another verifier', { code_verifier: 'x'.repeat(43) }, 'invalid_grant'],
    ['the challenge as verifier', { code_verifier: '' }, 'invalid_grant'],
    ['another redirect_uri', { redirect_uri: 'https://client.example/other' }, 'invalid_grant'],
    ['another resource', { resource: 'https://other.example/mcp' }, 'invalid_target'],
    ['an unknown client', { client_id: 'nobody' }, 'invalid_client'],
    ['another grant type', { grant_type: 'client_credentials' }, 'unsupported_grant_type'],
  ])('with %s', async (_, changed, error) => {
    const client = await OAuthClient.register(app);
    const answer = await client.exchange(await client.code(person, access), changed);
    expect([answer.status, answer.body.error]).toEqual([400, error]);
    expect(answer.headers.get('cache-control')).toBe('no-store');
  });

  test('of another client is refused: no client gets what a person gave to another', async () => {
    const [client, other] = [await OAuthClient.register(app), await OAuthClient.register(app)];
    const code = await client.code(person, access);
    expect((await other.exchange(code, { code_verifier: client.verifier })).body.error).toBe('invalid_grant');
    expect((await client.exchange(code)).status).toBe(200);
  });

  test('is valid for 60 seconds', async () => {
    const client = await OAuthClient.register(app);
    const age = (code: string, seconds: number) =>
      app.sql(
        'update api_tokens set expires_at = expires_at - make_interval(secs => $2) where lookup_id = $1',
        code.split('_')[1],
        seconds,
      );
    const late = await client.code(person, access);
    await age(late, 60);
    expect((await client.exchange(late)).body.error).toBe('invalid_grant');
    const intime = await client.code(person, access);
    await age(intime, 40);
    expect((await client.exchange(intime)).status).toBe(200);
  });

  test('a guessed one with the look-up id of another grant ends nothing', async () => {
    const client = await OAuthClient.register(app);
    const { access_token } = await client.tokens(person, access);
    expect((await client.exchange(access_token.replace('wo_', 'wc_'))).body.error).toBe('invalid_grant');
    expect(await works(access_token)).toBe(true);
  });
});

describe('a refresh token', () => {
  test('used twice: all tokens of the family end, and the audit log says why', async () => {
    const client = await OAuthClient.register(app);
    const first = await client.tokens(person, access);
    const second = (await client.refresh(first.refresh_token)).body;
    expect([await works(first.access_token), await works(second.access_token)]).toEqual([false, true]);
    await ageTokens(second, REPEAT_SECONDS + 1);
    expect((await client.refresh(first.refresh_token)).body.error).toBe('invalid_grant');
    expect(await works(second.access_token)).toBe(false);
    expect((await client.refresh(second.refresh_token)).body.error).toBe('invalid_grant');
    const administrator = await addPerson(app, 'administrator');
    const { body } = await administrator.api('GET', '/api/v1/audit?action=token.revoke&limit=1');
    expect(body.items[0].after.reason).toBe('a refresh token was used twice');
  });

  test('used twice at once, and again when the answer was lost: the same tokens, which expire when they would have', async () => {
    const client = await OAuthClient.register(app);
    const { refresh_token } = await client.tokens(person, access);
    const [one, other] = await Promise.all([client.refresh(refresh_token), client.refresh(refresh_token)]);
    expect([one.status, other.body]).toEqual([200, { ...one.body, expires_in: other.body.expires_in }]);
    await ageTokens(one.body, REPEAT_SECONDS - 5);
    const { body } = await client.refresh(refresh_token);
    expect(body).toEqual({ ...one.body, expires_in: body.expires_in });
    expect(body.expires_in).toBeLessThanOrEqual(ACCESS_SECONDS - REPEAT_SECONDS + 5);
    expect(await works(body.access_token)).toBe(true);
    expect((await client.refresh(body.refresh_token)).status).toBe(200);
  });

  test('repeated at once at a process with a new SECRETS_KEY: the same tokens; by another client or without access: none', async () => {
    const [client, stranger] = [await OAuthClient.register(app), await OAuthClient.register(app)];
    const { refresh_token } = await client.tokens(person, access);
    const { body } = await client.refresh(refresh_token);
    const { PUBLIC_URL } = app.settings;
    const keys = { SECRETS_KEY: someKey, SECRETS_KEY_PREVIOUS: loadSecretsKeys(app.settings)[0]! };
    const other = await ofTest(startTestApp({ ...keys, PUBLIC_URL, OAUTH_ENABLED: 'true' }, app));
    const again = await new OAuthClient(other, client.id).refresh(refresh_token);
    expect(again.body).toEqual({ ...body, expires_in: again.body.expires_in });
    expect((await stranger.refresh(refresh_token)).body.error).toBe('invalid_grant');
    expect(await works(body.access_token)).toBe(true);
    await client.post('revoke', { token: body.refresh_token });
    expect((await client.refresh(refresh_token)).body.error).toBe('invalid_grant');
  });

  test('repeated at once at a process with an older SECRETS_KEY ends no token: the client is asked to repeat it', async () => {
    const client = await OAuthClient.register(app);
    const { refresh_token } = await client.tokens(person, access);
    const { PUBLIC_URL } = app.settings;
    const old = loadSecretsKeys(app.settings)[0]!;
    const keys = { SECRETS_KEY: someKey, SECRETS_KEY_PREVIOUS: old };
    const other = await ofTest(startTestApp({ ...keys, PUBLIC_URL, OAUTH_ENABLED: 'true' }, app));
    for (const key of [old, someKey])
      await app.database.transaction((query) => recordKeys(query, fingerprintOf(key), null, { again: false }));
    const { body } = await new OAuthClient(other, client.id).refresh(refresh_token);
    const again = await client.refresh(refresh_token);
    expect([again.status, again.headers.get('retry-after'), again.body.error]).toEqual([
      503,
      '1',
      'temporarily_unavailable',
    ]);
    expect(await works(body.access_token)).toBe(true);
    await ageTokens(body, REPEAT_SECONDS + 1);
    expect((await client.refresh(refresh_token)).body.error).toBe('invalid_grant');
    expect(await works(body.access_token)).toBe(false);
    await app.sql('delete from secrets_keys');
  });

  test('of two refreshes ago ends all tokens, however soon', async () => {
    const client = await OAuthClient.register(app);
    const first = await client.tokens(person, access);
    const second = (await client.refresh(first.refresh_token)).body;
    const third = (await client.refresh(second.refresh_token)).body;
    expect((await client.refresh(first.refresh_token)).body.error).toBe('invalid_grant');
    expect(await works(third.access_token)).toBe(false);
  });

  test('of another client, or for another resource', async () => {
    const [client, other] = [await OAuthClient.register(app), await OAuthClient.register(app)];
    const { refresh_token } = await client.tokens(person, access);
    expect((await other.refresh(refresh_token)).body.error).toBe('invalid_grant');
    const elsewhere = await client.refresh(refresh_token, { resource: 'https://other.example/mcp' });
    expect(elsewhere.body.error).toBe('invalid_target');
    expect((await client.refresh(refresh_token)).status).toBe(200);
  });
});

test('secrets are stored as hashes', async () => {
  const client = await OAuthClient.register(app);
  const code = await client.code(person, access);
  const { body } = await client.exchange(code);
  const rows =
    await app.sql(`select row_to_json(g)::text as text from oauth_grants g union all select row_to_json(t)::text from api_tokens t
           union all select entry::text from audit_log`);
  const stored = JSON.stringify(rows);
  for (const text of [code, body.access_token, body.refresh_token])
    expect(stored).not.toContain(text.split('_')[2].slice(0, 43));
});

describe('registration', () => {
  test.each([
    ['http elsewhere', ['http://client.example/callback']],
    ['a fragment', ['https://client.example/callback#a']],
    ['a scheme of its own', ['cursor://callback']],
    ['a password', ['https://a:b@client.example/']],
    ['none', []],
    ['too many', Array.from({ length: 11 }, (_, i) => `https://client.example/${i}`)],
    ['no text', [5]],
  ])('redirect_uris with %s', async (_, redirect_uris) => {
    const { status, body } = await register(app, { redirect_uris });
    expect([status, body.error]).toEqual([400, 'invalid_redirect_uri']);
  });

  test('a body without JSON, and one that is too large', async () => {
    expect((await register(app, '{')).body.error).toBe('invalid_request');
    const large = await register(app, { redirect_uris: [REDIRECT], x: 'x'.repeat(20_000) });
    expect([large.status, large.body.error]).toEqual([400, 'invalid_request']);
  });

  test('gives no secret, whatever is asked for', async () => {
    const asked = { redirect_uris: [REDIRECT], token_endpoint_auth_method: 'client_secret_post', scope: 'admin' };
    const { status, body } = await register(app, asked);
    expect([status, body.token_endpoint_auth_method, body.scope, 'client_secret' in body]).toEqual([
      201,
      'none',
      'mcp',
      false,
    ]);
  });

  test('a flood of one address is refused, others are served', async () => {
    const from = elsewhere();
    const statuses = [];
    for (let i = 0; i <= registrationPolicy.max; i++)
      statuses.push((await register(app, { redirect_uris: [REDIRECT] }, from)).status);
    expect(statuses).toEqual([...Array(registrationPolicy.max).fill(201), 429]);
    expect((await register(app, { redirect_uris: [REDIRECT] })).status).toBe(201);
  });

  test('a flood of many addresses replaces its own clients, and none with a grant', async () => {
    const kept = await OAuthClient.register(app);
    const { refresh_token } = await kept.tokens(person, access);
    await app.sql(
      `insert into oauth_clients (id, name, redirect_uris, expires_at)
             select gen_random_uuid(), 'flood', '{https://flood.example/}', now() + interval '1 h' + i * interval '1 s'
             from generate_series(1, $1) i`,
      CLIENTS_MAX,
    );
    const client = await OAuthClient.register(app);
    expect((await client.ask(person)).status).toBe(200);
    const [row] = await app.sql<{ count: number }>('select count(*)::int as count from oauth_clients');
    expect(row!.count).toBe(CLIENTS_MAX);
    expect((await kept.refresh(refresh_token)).status).toBe(200);
    await app.sql(`delete from oauth_clients where name = 'flood'`);
  });

  test('expires after a day without a grant', async () => {
    const client = await OAuthClient.register(app);
    const [row] = await app.sql<{ seconds: number }>(
      `update oauth_clients set expires_at = now() where id = $1
             returning extract(epoch from (select c.expires_at from oauth_clients c where c.id = $1) - now())::int as seconds`,
      client.id,
    );
    expect(row!.seconds).toBeGreaterThan(86_000);
    expect(problemShown(await client.ask(person))).toEqual([422, 'invalid_request']);
  });
});

describe('every endpoint has a limit', () => {
  test.each([
    ['/oauth/token', 'POST'],
    ['/oauth/revoke', 'POST'],
    ['/oauth/register', 'POST'],
    ['/.well-known/oauth-protected-resource', 'GET'],
    ['/.well-known/oauth-protected-resource/mcp', 'GET'],
    ['/.well-known/oauth-authorization-server', 'GET'],
  ])('%s', async (path, method) => {
    const { headers } = await request(app.url + path, method, undefined, { 'x-forwarded-for': elsewhere() });
    expect(headers.get('ratelimit-policy')).toMatch(/^"(oauth|oauth-register|anonymous)";q=\d+/);
  });

  test('/oauth/authorize, also of a person', async () => {
    const { headers } = await (await OAuthClient.register(app)).ask(person);
    expect(headers.get('ratelimit-policy')).toContain('"oauth"');
  });
});
