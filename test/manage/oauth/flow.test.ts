/** OAuth for /mcp as clients go through it, first with the official client. */
import {
  Client,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { describe, expect, test } from 'vitest';
import { addAgent, send } from '../../helpers/agents.ts';
import { startTestApp } from '../../helpers/app.ts';
import { weir, weirJson } from '../../helpers/command.ts';
import { startHostedApp } from '../../helpers/hosted.ts';
import { post } from '../../helpers/mcp.ts';
import { OAuthClient, REDIRECT, startOAuthApp } from '../../helpers/oauth.ts';
import { addPerson, PASSWORD, request } from '../../helpers/people.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startOAuthApp);
const webhook = shared(() => app.addWebhook());
const agent = shared(() => addAgent(app, [webhook]));
const operator = shared(() => addPerson(app, 'operator', PASSWORD));
const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

/** The browser of the official client is a person who decides with these fields. */
class Provider implements OAuthClientProvider {
  readonly redirectUrl = 'http://127.0.0.1:8976/callback';
  readonly clientMetadata = { client_name: 'Official client', redirect_uris: [this.redirectUrl] };
  readonly #fields: Record<string, string>;
  /** Where the browser arrives. */
  callback: URL | undefined;
  #client: StoredOAuthClientInformation | undefined;
  #tokens: StoredOAuthTokens | undefined;
  #verifier = '';
  #discovered: OAuthDiscoveryState | undefined;

  constructor(fields: Record<string, string>) {
    this.#fields = fields;
  }

  state = () => 'state of the client';
  clientInformation = () => this.#client;
  saveClientInformation = (client: StoredOAuthClientInformation) => {
    this.#client = client;
  };
  tokens = () => this.#tokens;
  saveTokens = (tokens: StoredOAuthTokens) => {
    this.#tokens = tokens;
  };
  saveCodeVerifier = (verifier: string) => {
    this.#verifier = verifier;
  };
  codeVerifier = () => this.#verifier;
  saveDiscoveryState = (state: OAuthDiscoveryState) => {
    this.#discovered = state;
  };
  discoveryState = () => this.#discovered;

  async redirectToAuthorization({ pathname, search }: URL): Promise<void> {
    const page = await operator.page(pathname + search);
    expect(page).toContain('Official client');
    expect(page).toContain('127.0.0.1:8976');
    const decision = { request: search.slice(1), decision: 'allow', ...this.#fields };
    this.callback = new URL((await operator.submit(pathname, decision)).location!);
  }
}

const about = { name: 'official', version: '1' };
const at = (authProvider: Provider) => [new URL('/mcp', app.url), { authProvider }] as const;

describe.each([
  [
    'of today',
    (provider: Provider) => {
      const [client, transport] = [new Client(about), new StreamableHTTPClientTransport(...at(provider))];
      const wait = () => client.callTool({ name: 'wait_for_events', arguments: { wait_seconds: 5 } });
      return { client, transport, wait, connect: () => client.connect(transport) };
    },
  ],
  [
    'of the generation before',
    (provider: Provider) => {
      const client = new EarlierClient(about);
      const transport = new EarlierTransport(
        ...(at(provider) as unknown as ConstructorParameters<typeof EarlierTransport>),
      );
      const wait = () => client.callTool({ name: 'wait_for_events', arguments: { wait_seconds: 5 } });
      // The types of this SDK do not know exactOptionalPropertyTypes.
      return { client, transport, wait, connect: () => client.connect(transport as Transport) };
    },
  ],
])('the official client %s', (_, open) => {
  test('registers, is let in as an agent, works, and refreshes its token', async () => {
    const provider = new Provider({ access: 'agent', agent_id: agent.id, current_password: PASSWORD });
    const first = open(provider);
    await expect(first.connect()).rejects.toThrow(/Unauthorized/);
    const { searchParams, origin } = provider.callback!;
    expect([origin, searchParams.get('state'), searchParams.get('iss')]).toEqual([
      'http://127.0.0.1:8976',
      'state of the client',
      app.settings.PUBLIC_URL,
    ]);
    await first.transport.finishAuth(searchParams.get('code')!, searchParams.get('iss')!);
    const { client, wait, connect } = open(provider);
    await connect();
    const event = await send(webhook);
    expect(JSON.stringify(await wait())).toContain(event);
    const before = provider.tokens()!;
    // The access token expires: the client refreshes by itself.
    await app.sql('update oauth_grants set access_expires_at = now()');
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('acknowledge');
    expect(provider.tokens()!.refresh_token).not.toBe(before.refresh_token);
    await client.close();
  });
});

test('a 401 of /mcp leads to the metadata, and they to the endpoints', async () => {
  const { status, headers } = await post(app.url, 'wo_unknown', list);
  const issuer = app.settings.PUBLIC_URL;
  const resource = `${issuer}/.well-known/oauth-protected-resource/mcp`;
  expect([status, headers.get('www-authenticate')]).toEqual([
    401,
    `Bearer resource_metadata="${resource}", scope="mcp"`,
  ]);
  const read = async (url: string) => (await request(url, 'GET', undefined, {})).body;
  expect(await read(resource)).toMatchObject({ resource: `${issuer}/mcp`, authorization_servers: [issuer] });
  expect(await read(resource.slice(0, -'/mcp'.length))).toEqual(await read(resource));
  expect(await read(`${issuer}/.well-known/oauth-authorization-server`)).toMatchObject({
    issuer,
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
  });
});

describe('what a client may do', () => {
  test('a role: the tools of users, the audit log names person and token', async () => {
    const client = await OAuthClient.register(app);
    const { access_token } = await client.tokens(operator, { access: 'operator' });
    const create = { name: 'create_webhook', arguments: { name: 'by oauth' } };
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: create };
    expect((await post(app.url, access_token, call)).body.result.isError).toBeUndefined();
    const administrator = await addPerson(app, 'administrator');
    const { body } = await administrator.api('GET', '/api/v1/audit?limit=2');
    const [made, granted] = body.items;
    expect(made).toMatchObject({ action: 'webhook.create', actor: { id: operator.id, kind: 'token', via: 'mcp' } });
    expect(granted).toMatchObject({
      action: 'token.create',
      actor: { id: operator.id, kind: 'user' },
      after: { client_id: client.id, role: 'operator', redirect_uri: REDIRECT },
    });
    expect(made.actor.token_id).toBe(granted.target.id);
  });

  test('a client that is revoked while its claim waits gets nothing, and the event waits for others', async () => {
    const own = await app.addWebhook();
    const waiting = await addAgent(app, [own]);
    const client = await OAuthClient.register(app);
    const { access_token } = await client.tokens(operator, { access: 'agent', agent_id: waiting.id });
    const params = { name: 'wait_for_events', arguments: { wait_seconds: 30 } };
    const claim = post(app.url, access_token, { jsonrpc: '2.0', id: 1, method: 'tools/call', params });
    await until(async () => (await app.metric('weir_claims_waiting')) === 1);
    await client.post('revoke', { token: access_token });
    const event = await send(own, 'for others');
    const { isError, content } = (await claim).body.result;
    expect([isError, JSON.stringify(content)]).toEqual([true, expect.not.stringContaining('for others')]);
    expect((await waiting.claim()).map(({ event: { id }, attempt }) => [id, attempt])).toEqual([[event, 1]]);
  });

  test('a token is valid for /mcp alone', async () => {
    const client = await OAuthClient.register(app);
    const { access_token, refresh_token } = await client.tokens(operator, { access: 'viewer' });
    expect((await post(app.url, access_token, list)).status).toBe(200);
    expect((await post(app.url, refresh_token, list)).status).toBe(401);
    for (const path of ['/api/v1/account', '/api/v1/events', '/api/v1/agent/me'])
      for (const token of [access_token, refresh_token, access_token.replace('wo_', 'wu_')]) {
        const { status } = await request(app.url + path, 'GET', undefined, { authorization: `Bearer ${token}` });
        expect([path, status]).toEqual([path, 401]);
      }
  });

  test('viewers choose a role not above their own, and no agent', async () => {
    const viewer = await addPerson(app, 'viewer', PASSWORD);
    const client = await OAuthClient.register(app);
    const page = (await client.ask(viewer)).text;
    expect(page).not.toContain(agent.id);
    expect(page).not.toContain('with the role operator');
    for (const fields of [{ access: 'operator' }, { access: 'agent', agent_id: agent.id }]) {
      const { status, location } = await client.decide(viewer, fields as Record<string, string>);
      expect([status, location]).toEqual([403, null]);
    }
    expect((await client.decide(viewer, { access: 'viewer' })).status).toBe(303);
  });

  test('a person who denies: the client gets the error, and nothing else', async () => {
    const client = await OAuthClient.register(app);
    const { location } = await client.decide(operator, { decision: 'deny' });
    const { searchParams } = new URL(location!);
    expect(Object.fromEntries(searchParams)).toEqual({
      error: 'access_denied',
      state: 'a state',
      iss: app.settings.PUBLIC_URL,
    });
  });

  test('someone who is not signed in signs in first and comes back', async () => {
    const client = await OAuthClient.register(app);
    const address = `/oauth/authorize?${client.query()}`;
    const answer = await request(app.url + address, 'GET', undefined, { accept: 'text/html' });
    expect([answer.status, answer.headers.get('location')]).toEqual([
      303,
      `/sign-in?return_to=${encodeURIComponent(address)}`,
    ]);
  });

  test('hosted: a sign-in at the provider that is recent takes the place of the password', async () => {
    const hosted = await ofTest(
      startHostedApp({ people: { ada: { role: 'operator' } } } as never, { OAUTH_ENABLED: 'true' }),
    );
    const person = await addPerson(hosted.app, 'operator');
    const client = await OAuthClient.register(hosted.app);
    expect((await client.decide(person, { access: 'viewer', current_password: '' })).status).toBe(303);
    await hosted.app.sql(`update sessions set authenticated_at = now() - interval '10 min'`);
    const late = await client.decide(person, { access: 'viewer', current_password: '' });
    expect([late.status, late.text.includes('/oidc/start?fresh=true')]).toEqual([403, true]);
  });
});

describe('access ends', () => {
  /** A person, an agent, and a client that may act as it. */
  async function granted(fields?: Record<string, string>) {
    const [person, own] = [await addPerson(app, 'operator', PASSWORD), await addAgent(app)];
    const client = await OAuthClient.register(app);
    const tokens = await client.tokens(person, fields ?? { access: 'agent', agent_id: own.id });
    const status = async () => (await post(app.url, tokens.access_token, list)).status;
    expect(await status()).toBe(200);
    return { person, own, client, tokens, status };
  }
  const administrator = shared(() => addPerson(app, 'administrator'));

  test.each([
    ['the user is disabled', { disabled: true }, { disabled: false }],
    ['the role of the user is lowered', { role: 'viewer' }, { role: 'operator' }],
  ])('when %s, for good', async (_, change, back) => {
    const { person, client, tokens, status } = await granted();
    await administrator.api('PATCH', `/api/v1/users/${person.id}`, change);
    expect(await status()).toBe(401);
    expect((await client.refresh(tokens.refresh_token)).body.error).toBe('invalid_grant');
    await administrator.api('PATCH', `/api/v1/users/${person.id}`, back);
    expect(await status()).toBe(401);
  });

  test('when the agent is revoked', async () => {
    const { own, client, tokens, status } = await granted();
    expect((await administrator.api('DELETE', `/api/v1/agents/${own.id}`, { confirmed: true })).status).toBe(204);
    expect(await status()).toBe(401);
    expect((await client.refresh(tokens.refresh_token)).body.error).toBe('invalid_grant');
  });

  test('when the client revokes it, and not when another does', async () => {
    const { client, tokens, status } = await granted();
    const other = await OAuthClient.register(app);
    expect((await other.post('revoke', { token: tokens.refresh_token })).status).toBe(200);
    expect(await status()).toBe(200);
    expect((await client.post('revoke', { token: tokens.refresh_token })).status).toBe(200);
    expect(await status()).toBe(401);
  });

  test('when it is revoked on the page of the agent, by any operator', async () => {
    const { own, status } = await granted();
    const [other, viewer] = [await addPerson(app, 'operator'), await addPerson(app, 'viewer')];
    const [, path] = /action="(\/account\/tokens\/[0-9a-f-]+\/revoke)"/.exec(await other.page(`/agents/${own.id}`))!;
    expect(await viewer.page(`/agents/${own.id}`)).not.toContain(path);
    expect((await viewer.submit(path!, { confirmed: 'yes' })).status).toBe(404);
    expect((await other.submit(path!, { confirmed: 'yes' })).status).toBe(303);
    expect(await status()).toBe(401);
    expect(await other.page(`/agents/${own.id}`)).not.toContain(path);
  });

  test('when a command revokes it', async () => {
    const { own, client, status } = await granted();
    const { items } = await weirJson(app, 'token', 'list', '--agent', own.id);
    expect(items).toMatchObject([{ client_id: client.id, agent_id: own.id, name: 'Test client', state: 'active' }]);
    expect((await weir(app, 'token', 'list', '--agent', own.id)).out).toContain('OAuth, agent');
    expect((await weir(app, 'token', 'revoke', items[0].id, '--yes')).code).toBe(0);
    expect(await status()).toBe(401);
  });

  test('when its owner revokes it among the tokens', async () => {
    const { person, status } = await granted({ access: 'viewer' });
    const { body } = await person.api('GET', '/api/v1/tokens');
    const { id } = body.items.find(({ client_id }: { client_id: string | null }) => client_id !== null);
    expect(await person.page('/account/tokens')).toContain('OAuth client');
    expect((await person.submit(`/account/tokens/${id}/revoke`, { confirmed: 'yes' })).status).toBe(303);
    expect(await status()).toBe(401);
  });

  test('after 30 days without use', async () => {
    const { client, tokens } = await granted();
    await app.sql(`update api_tokens set expires_at = now() where lookup_id = $1`, tokens.refresh_token.split('_')[1]);
    expect((await client.refresh(tokens.refresh_token)).body.error).toBe('invalid_grant');
  });
});

test('pages of CORS_ORIGINS may read what clients ask for', async () => {
  const origin = 'https://inspector.example';
  const open = await ofTest(startOAuthApp({ CORS_ORIGINS: origin }));
  for (const path of ['/oauth/token', '/oauth/register', '/.well-known/oauth-protected-resource/mcp']) {
    const asked = { origin, 'access-control-request-method': 'POST' };
    const { status, headers } = await request(open.url + path, 'OPTIONS', undefined, asked);
    expect([status, headers.get('access-control-allow-origin')]).toEqual([204, origin]);
  }
});

test('without OAUTH_ENABLED nothing of it exists', async () => {
  const off = await ofTest(startTestApp());
  const paths = [
    '/.well-known/oauth-protected-resource',
    '/.well-known/oauth-authorization-server',
    '/oauth/authorize',
  ];
  for (const path of paths) expect((await fetch(off.url + path)).status).toBe(404);
  expect((await fetch(`${off.url}/oauth/token`, { method: 'POST' })).status).toBe(404);
  expect((await post(off.url, null, list)).headers.get('www-authenticate')).toBe('Bearer');
});
