/** Credentials and sessions over HTTP: every error has the same response. */
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { signSession } from '../../../server/manage/auth/agent-session.ts';
import { createCredential } from '../../../server/model/credential.ts';
import { derivedKeys, loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { addAgent, agentsOf, request, signIn, startAgentApp } from '../../helpers/agents.ts';
import { rawRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const agent = shared(() => addAgent(app));

const me = (token: string | null) => request(`${app.url}/api/v1/agent/me`, token);
const session = (token: string | null, body: unknown = {}) => request(`${app.url}/api/v1/agent/session`, token, body);

/** The response to every error. */
const refusal = {
  type: 'about:blank',
  title: 'Unauthorized',
  status: 401,
  detail: expect.any(String),
  code: 'agent_unauthenticated',
  request_id: expect.any(String),
};

describe('a credential', () => {
  test('opens a session, as a bearer token or in the body', async () => {
    for (const answer of [await session(agent.credential), await session(null, { credential: agent.credential })]) {
      expect([answer.status, answer.body]).toEqual([
        200,
        {
          access_token: expect.stringMatching(/^ws_/),
          token_type: 'Bearer',
          expires_in: 900,
          agent: { id: agent.id, name: expect.any(String) },
        },
      ]);
      expect(answer.headers.get('cache-control')).toBe('no-store');
      expect((await me(answer.body.access_token)).body).toMatchObject({ id: agent.id });
    }
  });

  test('the scheme Bearer is case-insensitive (RFC 9110, section 11.1)', async () => {
    const response = await fetch(`${app.url}/api/v1/agent/me`, { headers: { Authorization: `bEARER ${agent.token}` } });
    expect(response.status).toBe(200);
  });

  test('is stored only as a hash', async () => {
    const rows = await app.sql<{ row: string }>('select to_jsonb(agents)::text as row from agents');
    for (const { row } of rows) expect(row).not.toContain(agent.credential.slice(16, 30));
  });
});

describe('every error has the same 401 response', () => {
  let seen: unknown;

  async function expectRefused(token: string | null): Promise<void> {
    for (const answer of [await me(token), await session(token)]) {
      expect([answer.status, answer.body]).toEqual([401, refusal]);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      const { request_id: _, ...same } = answer.body;
      seen ??= same;
      expect(same).toEqual(seen);
    }
  }

  const otherLookup = () => agent.credential.replace(/^wa_.{12}/, createCredential('wa').text.slice(0, 15));
  const signed = (rest = {}, key = derivedKeys(loadSecretsKeys(app.settings), 'agent-sessions')[0]!) =>
    signSession({ agentId: agent.id, generation: 1, expiresAtMs: Date.now() + 60_000, ...rest }, key);

  test.each<[string, () => string | null]>([
    ['no token', () => null],
    ['an empty one', () => ' '],
    ['nonsense', () => 'nonsense'],
    ['a credential cut short', () => agent.credential.slice(0, -1)],
    ['wrong check digits', () => agent.credential.slice(0, -1) + (agent.credential.endsWith('A') ? 'B' : 'A')],
    ['a credential that was never given', () => createCredential('wa').text],
    ['another look-up id before the secret', otherLookup],
    ['a user token', () => `wu_${agent.credential.slice(3)}`],
    ['two tokens in one header', () => `${agent.credential} ${agent.credential}`],
    ['a session that has expired', () => signed({ expiresAtMs: Date.now() - 1 })],
    ['a session of a generation before', () => signed({ generation: 0 })],
    ['a session of an unknown agent', () => signed({ agentId: randomUUID() })],
    ['a session signed by another key', () => signed({}, Buffer.alloc(32, 9))],
    ['very much', () => `wa_${'x'.repeat(10_000)}`],
  ])('%s', (_what, token) => expectRefused(token()));

  test('a credential with the secret of another one and correct check digits', async () => {
    const other = await addAgent(app);
    const { text, lookupId } = createCredential('wa');
    await app.sql('update agents set lookup_id = $2 where id = $1', other.id, lookupId);
    await expectRefused(text);
  });

  test('a session where only a credential is accepted', async () => {
    const { status, body } = await session(agent.token);
    expect([status, body]).toEqual([401, refusal]);
  });

  test('a rotated credential and its earlier sessions', async () => {
    const rotated = await addAgent(app);
    const { credential } = made(await agentsOf(app).rotate(rotated.id));
    await expectRefused(rotated.credential);
    await expectRefused(rotated.token);
    expect((await me(await signIn(app, credential))).status).toBe(200);
  });

  test('a revoked credential and its sessions', async () => {
    const revoked = await addAgent(app);
    expect(await agentsOf(app).revoke(revoked.id)).toMatchObject({ kind: 'done', value: { revoked: true } });
    await expectRefused(revoked.credential);
    await expectRefused(revoked.token);
  });

  test.each([
    ['the same token twice', (token: string) => [`Bearer ${token}`, `Bearer ${token}`]],
    ['a good one first', (token: string) => [`Bearer ${token}`, 'Bearer nonsense']],
    ['a good one last', (token: string) => ['Basic bm9ib2R5Og==', `Bearer ${token}`]],
    ['another scheme', (token: string) => [`Basic ${token}`]],
    ['the token alone', (token: string) => [token]],
  ])('%s in the header', async (_what, values) => {
    for (const token of [agent.token, agent.credential]) {
      const fields = values(token).map((value) => `Authorization: ${value}\r\n`);
      const answer = await rawRequest(app.port, `GET /api/v1/agent/me HTTP/1.1\r\nHost: a\r\n${fields.join('')}\r\n`);
      expect([answer!.status, JSON.parse(String(answer!.body))]).toEqual([401, refusal]);
    }
  });
});

test.each([
  ['no JSON', '{', 400, 'invalid_json'],
  ['another member', '{"credentials":""}', 422, 'invalid_request'],
  ['a number', '{"credential":1}', 422, 'invalid_request'],
])('a request for a session with %s in its body returns the reason', async (_what, body, status, code) => {
  const response = await fetch(`${app.url}/api/v1/agent/session`, { method: 'POST', body });
  expect([response.status, await response.json()]).toMatchObject([status, { code }]);
});

describe('while the database is unavailable', () => {
  beforeEach(() => app.cutOff());

  test('no agent is refused permanently: 503, and normal service after recovery', async () => {
    try {
      const answers = [await me(agent.credential), await session(agent.credential)];
      expect(answers.map(({ status, headers }) => [status, headers.get('retry-after')])).toEqual([
        [503, '1'],
        [503, '1'],
      ]);
    } finally {
      await app.restore();
    }
    expect((await me(agent.credential)).status).toBe(200);
    expect((await me(agent.token)).status).toBe(200);
  });
});
