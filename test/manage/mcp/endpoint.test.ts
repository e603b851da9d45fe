/** POST /mcp below the tools: who may ask, from where, how much, and in which form. */
import { readdirSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { addAgent, signIn, startAgentApp } from '../../helpers/agents.ts';
import { post, toolCall } from '../../helpers/mcp.ts';
import { addPerson } from '../../helpers/people.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const console = 'https://console.example.org';
const app = shared(() => startAgentApp({ CORS_ORIGINS: console, PUBLIC_URL: 'https://weir.example.org' }));
const webhook = shared(() => app.addWebhook());
const agent = shared(() => addAgent(app, [webhook]));

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

/** fetch sets Host and the Sec- fields itself. */
function postByHttp(headers: Record<string, string>): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(`${app.url}/mcp`, {
      method: 'POST',
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        authorization: `Bearer ${agent.credential}`,
        ...headers,
      },
    });
    sent.on('error', reject);
    sent.on('response', async (response) => {
      const chunks = await response.toArray();
      resolve({ status: response.statusCode!, text: Buffer.concat(chunks).toString() });
    });
    sent.end(JSON.stringify(list));
  });
}

describe('a bearer token', () => {
  test.each([
    ['none', null],
    ['unknown credential', `wa_${'a'.repeat(40)}`],
    ['unknown token', `wu_${'a'.repeat(40)}`],
    ['expired or forged session', 'ws_x.y'],
  ])('%s: 401 with WWW-Authenticate', async (_, token) => {
    const { status, headers, body } = await post(app.url, token, list);
    expect([status, headers.get('www-authenticate'), body.code]).toEqual([401, 'Bearer', 'agent_unauthenticated']);
    expect(body.detail).toContain('API token');
  });

  test('a session cookie of the pages is not accepted instead: another site could use it', async () => {
    const viewer = await addPerson(app, 'viewer');
    expect((await post(app.url, null, list, { cookie: viewer.cookie })).status).toBe(401);
    expect((await post(app.url, viewer.token, list)).status).toBe(200);
  });
});

describe('Origin and Host', () => {
  test.each([
    [{ origin: 'https://evil.example' }, 403],
    [{ origin: 'null' }, 403],
    [{ 'sec-fetch-site': 'cross-site' }, 403],
    [{ host: 'evil.example:8080' }, 403],
    [{ host: 'localhost.evil.example' }, 403],
    [{ host: 'localhost:1234' }, 200],
    [{ host: 'weir.example.org' }, 200],
    [{ origin: console }, 200],
    [{ origin: 'https://weir.example.org' }, 200],
  ])('%j: %i', async (headers, status) => {
    const answer = await postByHttp(headers as Record<string, string>);
    expect(answer.status).toBe(status);
    if (status === 403) expect(JSON.parse(answer.text).code).toBe('origin_refused');
  });

  test('a page of CORS_ORIGINS may read the answer', async () => {
    const answer = await post(app.url, agent.credential, list, { origin: console });
    expect(answer.headers.get('access-control-allow-origin')).toBe(console);
  });
});

describe('a message', () => {
  test.each([
    ['not JSON', '{"jsonrpc":', 400, 'invalid_json'],
    ['nested too deep', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, 400, 'invalid_json'],
    ['with too many values', JSON.stringify({ ...list, x: Array(10_000).fill(0) }), 400, 'invalid_json'],
    ['over 256 KiB', JSON.stringify({ ...list, x: 'x'.repeat(262_144) }), 413, 'body_too_large'],
  ])('%s: a problem document', async (_, message, status, code) => {
    const answer = await post(app.url, agent.credential, message);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
  });

  test.each([
    ['not JSON-RPC', { id: 1, method: 'tools/list' }, {}, 400, -32600],
    ['nothing', '', {}, 400, -32600],
    ['a batch', [list, list], {}, 400, -32600],
    ['an unknown method', { ...list, method: 'resources/list' }, {}, 200, -32601],
    ['params of another type', { ...list, method: 'tools/call', params: [] }, {}, 400, -32600],
    ['a tool name of another type', { ...list, method: 'tools/call', params: { name: {} } }, {}, 200, -32602],
    [
      'arguments of another type',
      { ...list, method: 'tools/call', params: { name: 'acknowledge', arguments: [] } },
      {},
      200,
      -32602,
    ],
    ['an inherited name', { ...list, method: 'tools/call', params: { name: 'constructor' } }, {}, 200, -32602],
    ['an id of another type', { ...list, id: {} }, {}, 400, -32600],
    ['an unknown revision', list, { 'mcp-protocol-version': '1999-01-01' }, 400, -32000],
    ['another content type', list, { 'content-type': 'text/plain' }, 415, -32000],
    ['no accepted type', list, { accept: 'text/html' }, 406, -32000],
  ])('%s: a JSON-RPC error', async (_, message, headers, status, code) => {
    const answer = await post(app.url, agent.credential, message, headers as Record<string, string>);
    expect([answer.status, answer.body.error.code]).toEqual([status, code]);
  });

  test('a subscription, which this server does not have: 404 in place of a stream without an end', async () => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const method = 'subscriptions/listen';
    const message = { ...list, method, params: { _meta, notifications: { toolsListChanged: true } } };
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method };
    const { status, body } = await post(app.url, agent.credential, message, headers);
    expect([status, body]).toMatchObject([404, { id: 1, error: { code: -32601 } }]);
  });

  test('a notification: 202', async () => {
    const answer = await post(app.url, agent.credential, { jsonrpc: '2.0', method: 'notifications/initialized' });
    expect([answer.status, answer.body]).toEqual([202, null]);
  });

  test.each(['GET', 'DELETE'])('%s: 405, because /mcp has neither sessions nor streams', async (method) => {
    const response = await fetch(`${app.url}/mcp`, { method, headers: { accept: 'text/event-stream' } });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST, OPTIONS']);
  });
});

test('credentials count in the limit of agents; sessions only in what agents share with users', async () => {
  const limited = await ofTest(
    startAgentApp({ RATE_LIMIT_AGENT_AUTH_MAX: 3, RATE_LIMIT_AGENT_AUTH_WINDOW_SECONDS: 86_400 }),
  );
  const { credential } = await addAgent(limited);
  const session = await signIn(limited, credential);
  for (let i = 0; i < 5; i++) expect((await post(limited.url, session, list)).status).toBe(200);
  const first = await post(limited.url, session, toolCall('search_events'));
  expect(first.body.result.isError).toBeUndefined();
  const second = await post(limited.url, session, toolCall('search_events'));
  const document = JSON.parse(second.body.result.content[0].text);
  expect([second.body.result.isError, document.code]).toEqual([true, 'rate_limited']);
  expect(document.retry_after_seconds).toBeGreaterThan(0);
  const refused = await post(limited.url, credential, list);
  expect([refused.status, refused.headers.has('retry-after')]).toEqual([429, true]);
});

test('the SDK is loaded by the first request to /mcp, not when a process starts', () => {
  const server = fileURLToPath(new URL('../../../server', import.meta.url));
  const importing = (what: RegExp) =>
    readdirSync(server, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts') && what.test(readFileSync(`${server}/${path}`, 'utf8')))
      .sort();
  expect(importing(/^import (?!type)[^;]*'@modelcontextprotocol/m)).toEqual(['manage/mcp/serve.ts']);
  expect(importing(/^import [^;]*mcp\/serve\.ts'|^import [^;]*'\.\/serve\.ts'/m)).toEqual([]);
});

test('an unreachable database is a tool error that says when to try again', async () => {
  await app.cutOff();
  try {
    const { status, body } = await post(app.url, agent.token, toolCall('wait_for_events', { wait_seconds: 0 }));
    const document = JSON.parse(body.result.content[0].text);
    expect([status, document.code, document.retry_after_seconds]).toEqual([200, 'database_unavailable', 1]);
  } finally {
    await app.restore();
  }
});
