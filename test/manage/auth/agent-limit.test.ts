/** RATE_LIMIT_AGENT_AUTH_MAX: which requests are counted, and which are never refused. Each test uses its own address. */
import { expect, test } from 'vitest';
import { createCredential } from '../../../server/model/credential.ts';
import { addAgent, startAgentApp } from '../../helpers/agents.ts';
import { type RawAnswer, RawClient } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';

const MAX = 4;
const app = shared(() => startAgentApp({ RATE_LIMIT_AGENT_AUTH_MAX: MAX, RATE_LIMIT_AGENT_AUTH_WINDOW_SECONDS: 3600 }));
const agent = shared(() => addAgent(app));

let hosts = 1;
/** Sends from one client address. */
async function from(requests: readonly (readonly [string, string, string?])[]): Promise<RawAnswer[]> {
  const client = await RawClient.connect(app.port, `127.0.1.${hosts}`);
  try {
    const answers: RawAnswer[] = [];
    for (const [line, token, body = ''] of requests) {
      const authorization = token === '' ? '' : `Authorization: Bearer ${token}\r\n`;
      void client.send(`${line} HTTP/1.1\r\nHost: a\r\n${authorization}Content-Length: ${body.length}\r\n\r\n${body}`);
      answers.push((await client.answer())!);
    }
    return answers;
  } finally {
    client.destroy();
  }
}
const nextHost = () => {
  hosts++;
};
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);
const statuses = (answers: RawAnswer[]) => answers.map(({ status }) => status);

const SESSION = 'POST /api/v1/agent/session';
const ME = 'GET /api/v1/agent/me';
const CLAIM = 'POST /api/v1/agent/deliveries/claim';

test.each<[string, string, () => string, string, number]>([
  ['a sign-in that succeeds', SESSION, () => agent.credential, '', 200],
  ['a sign-in that fails', SESSION, () => 'nonsense', '', 401],
  ['a sign-in with a session', SESSION, () => agent.token, '', 401],
  ['a sign-in that is not JSON', SESSION, () => agent.credential, '{', 400],
  ['a credential on another route', ME, () => agent.credential, '', 200],
  ['a credential that claims', CLAIM, () => agent.credential, '{}', 200],
  ['a credential that was never given', ME, () => createCredential('wa').text, '', 401],
  ['a session that was tampered with', ME, () => `${agent.token.slice(0, -3)}AAA`, '', 401],
  ['no token', ME, () => '', '', 401],
])('%s is counted, and one over the limit is 429', async (_what, line, token, body, usual) => {
  nextHost();
  const answers = await from(times(MAX + 1, [line, token(), body] as const));
  expect(statuses(answers)).toEqual([...times(MAX, usual), 429]);
  const last = answers.at(-1)!;
  expect(JSON.parse(String(last.body)).code).toBe('rate_limited');
  expect(last.headers['ratelimit-policy']).toBe(`"agent-auth";q=${MAX};w=3600`);
  expect(Number(last.headers['retry-after'])).toBeGreaterThan(0);
  expect(answers[0]!.headers.ratelimit).toMatch(new RegExp(`^"agent-auth";r=${MAX - 1};t=\\d+$`));
});

test('an active session is neither counted nor refused', async () => {
  nextHost();
  const before = await from(times(MAX * 3, [ME, agent.token] as const));
  expect(new Set(statuses(before))).toEqual(new Set([200]));
  expect(statuses(await from(times(MAX + 1, [ME, 'nonsense'] as const)))).toEqual([...times(MAX, 401), 429]);
  const after = await from([
    [ME, agent.token],
    [CLAIM, agent.token, '{}'],
    [ME, agent.credential],
  ]);
  expect(statuses(after)).toEqual([200, 200, 429]);
});

test('a client at its limit does not affect other clients', async () => {
  nextHost();
  expect(statuses(await from(times(MAX + 1, [SESSION, 'nonsense'] as const))).at(-1)).toBe(429);
  nextHost();
  expect(statuses(await from([[SESSION, agent.credential]]))).toEqual([200]);
});
