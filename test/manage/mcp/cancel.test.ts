/** notifications/cancelled over HTTP: it reaches the waiting call in whatever process that is. Disconnected clients: endpoint.test.ts. */
import { afterEach, expect, test } from 'vitest';
import { addAgent, send, startAgentApp, startSecondApp, storeEvents } from '../../helpers/agents.ts';
import { connect, post, toolCall } from '../../helpers/mcp.ts';
import { ofEach, ofTest, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startAgentApp);
const second = shared(() => startSecondApp(app));
const webhook = ofEach(() => app.addWebhook());
const agent = ofEach(() => addAgent(app, [webhook]));

afterEach(() => until(async () => (await waiting()) === 0));

async function waiting(at = app.app): Promise<number> {
  const families = (await at.metrics()) as { name: string; values: { value: number }[] }[];
  return families.find(({ name }) => name === 'weir_claims_waiting')!.values[0]!.value;
}

const WAIT_SECONDS = 30;

/** Calls wait_for_events with this id. Resolves when it waits. */
async function wait(id: string | number, by = agent, at = app.app) {
  const before = await waiting(at);
  const call = { ...toolCall('wait_for_events', { wait_seconds: WAIT_SECONDS }), id };
  const answer = post(by.url, by.token, call).then(({ body }) => body.result.structuredContent.deliveries);
  await until(async () => (await waiting(at)) > before);
  return { answer };
}

function cancel(requestId: unknown, by = agent, url = by.url) {
  return post(url, by.token, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } });
}

/** The call ends before its wait would. */
async function expectEmpty(answer: Promise<unknown>) {
  const beganMs = performance.now();
  expect(await answer).toEqual([]);
  expect(performance.now() - beganMs).toBeLessThan((WAIT_SECONDS - 5) * 1_000);
}

/** The next event is for the next call, as its first attempt. */
async function expectUntouched() {
  const id = await send(webhook);
  expect(await agent.claimOne()).toMatchObject({ attempt: 1, event: { id } });
}

test.each([
  ['the process that serves the call', () => app.url],
  ['another process', () => second.url],
])('a cancellation sent to %s ends the wait', async (_where, url) => {
  const { answer } = await wait(7);
  expect((await cancel(7, agent, url())).status).toBe(202);
  await expectEmpty(answer);
  await expectUntouched();
});

test('a cancellation ends the calls of its process when no change is relayed, as in an outage of the database', async () => {
  const alone = await startSecondApp(app, { listens: false });
  const { answer } = await wait('a', agent.at(alone), alone.app);
  await cancel('a', agent.at(alone));
  await expectEmpty(answer);
  await alone.stop();
});

test('the official client cancels by aborting its call, which closes the connection', async () => {
  const client = await ofTest(connect(app.url, agent.token));
  const leaving = new AbortController();
  const given = { name: 'wait_for_events', arguments: { wait_seconds: WAIT_SECONDS } };
  const call = client.client.callTool(given, { signal: leaving.signal });
  await until(async () => (await waiting()) === 1);
  leaving.abort();
  await expect(call).rejects.toThrow();
  await until(async () => (await waiting()) === 0, { timeoutMs: (WAIT_SECONDS - 5) * 1_000 });
  await expectUntouched();
});

const VERSION = 'io.modelcontextprotocol/protocolVersion';
test.each([
  ['2025-11-25', {}, {}],
  [
    '2026-07-28',
    { [VERSION]: '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} },
    { 'mcp-method': 'tools/call', 'mcp-name': 'wait_for_events' },
  ],
])('a client of %s that leaves a stream of progress ends the wait', async (revision, meta, fields) => {
  const leaving = new AbortController();
  const { params, ...call } = toolCall('wait_for_events', { wait_seconds: WAIT_SECONDS });
  const response = await fetch(`${app.url}/mcp`, {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      authorization: `Bearer ${agent.token}`,
      'mcp-protocol-version': revision,
      ...fields,
    },
    body: JSON.stringify({ ...call, params: { ...params, _meta: { ...meta, progressToken: 'p' } } }),
    signal: leaving.signal,
  });
  expect(response.headers.get('content-type')).toBe('text/event-stream');
  const { value } = await response.body!.getReader().read();
  expect(Buffer.from(value!).toString()).toContain('"progressToken":"p"');
  leaving.abort();
  await until(async () => (await waiting()) === 0, { timeoutMs: (WAIT_SECONDS - 5) * 1_000 });
  await expectUntouched();
});

test('a cancellation of another agent, id, type of id or without an id ends nothing', async () => {
  const other = await addAgent(app, [webhook]);
  const { answer } = await wait(7);
  await cancel(7, other);
  for (const id of ['7', 8, null, undefined, {}]) await cancel(id);
  // Another call of the same agent is cancelled after those, so they have been received.
  const last = await wait('last');
  await cancel('last');
  await expectEmpty(last.answer);
  expect(await waiting()).toBe(1);
  const id = await send(webhook);
  expect(await answer).toMatchObject([{ event_id: id, attempt: 1 }]);
});

test('of two clients with one credential and one id, both get an empty list, and no event is lost', async () => {
  const [one, two] = [await wait(1), await wait(1)];
  await cancel(1);
  await expectEmpty(one.answer);
  await expectEmpty(two.answer);
  await expectUntouched();
});

test('a call that is cancelled while it leases returns its leases without counting them', async () => {
  await storeEvents(app.database, webhook.id, 10);
  const call = { ...toolCall('wait_for_events', { max: 10 }), id: 'leases' };
  const answer = await app.database.transaction(async (query) => {
    await query({ text: 'lock table deliveries in exclusive mode' });
    const answer = post(agent.url, agent.token, call);
    const text = `select from pg_locks where not granted and relation = 'deliveries'::regclass`;
    await until(async () => (await query({ text })).length > 0);
    await cancel('leases');
    return { answer };
  });
  expect((await answer.answer).body.result.structuredContent.deliveries).toEqual([]);
  const claimed = await agent.claim();
  expect(claimed.map(({ attempt }) => attempt)).toEqual(Array(10).fill(1));
});
