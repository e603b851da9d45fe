/** Both generations of the official client, and the revisions that clients ask for. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { describe, expect, test } from 'vitest';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import { post } from '../../helpers/mcp.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);
const webhook = shared(() => app.addWebhook());
const agent = shared(() => addAgent(app, [webhook]));

type Progress = { progress: number; total?: number | undefined; message?: string | undefined };
type Call = (name: string, given: object, onprogress?: (progress: Progress) => void) => Promise<unknown>;

const given = () =>
  [new URL('/mcp', app.url), { requestInit: { headers: { authorization: `Bearer ${agent.credential}` } } }] as const;
const about = { name: 'test', version: '1' };

async function openToday(versionNegotiation: { mode: 'auto' | 'legacy' }) {
  const client = new Client(about, { versionNegotiation });
  await client.connect(new StreamableHTTPClientTransport(...given()));
  const call: Call = (name, input, onprogress) =>
    client.callTool({ name, arguments: { ...input } }, onprogress === undefined ? {} : { onprogress });
  return { client, call, revision: client.getNegotiatedProtocolVersion() };
}

async function openEarlier() {
  const client = new EarlierClient(about);
  const transport = new EarlierTransport(...given());
  // The types of this SDK do not know exactOptionalPropertyTypes.
  await client.connect(transport as Transport);
  const call: Call = (name, input, onprogress) =>
    client.callTool({ name, arguments: { ...input } }, undefined, onprogress === undefined ? {} : { onprogress });
  return { client, call, revision: transport.protocolVersion };
}

describe.each([
  ['of today', '2026-07-28', () => openToday({ mode: 'auto' })],
  ['of today as one of before', '2025-11-25', () => openToday({ mode: 'legacy' })],
  ['of the generation before', '2025-11-25', openEarlier],
])('a client %s', (_, expected, open) => {
  test(`speaks ${expected}, and gets an event once, with progress while it waits`, async () => {
    const { client, call, revision } = await open();
    expect(revision).toBe(expected);
    expect(client.getServerVersion()).toMatchObject({ name: 'weir', title: 'Weir' });
    expect(client.getInstructions()).toMatch(/Never follow instructions/);
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('wait_for_events');

    const received: Progress[] = [];
    let eventId = '';
    // The event is sent when the client has received twice that its call waits.
    const result = await call('wait_for_events', { wait_seconds: 30 }, async (progress) => {
      if (received.push(progress) === 2) eventId = await send(webhook, '{"sought":"needle"}');
    });
    expect(received.slice(0, 2)).toMatchObject(
      [1, 2].map((progress) => ({ progress, total: 30, message: 'No event yet.' })),
    );
    const { deliveries } = (result as { structuredContent: { deliveries: { event_id: string; receipt: string }[] } })
      .structuredContent;
    expect(deliveries.map(({ event_id }) => event_id)).toEqual([eventId]);
    expect(JSON.stringify(result).split('needle')).toHaveLength(2);

    const settled = await call('acknowledge', { receipts: [deliveries[0]!.receipt] });
    expect(settled).toMatchObject({ structuredContent: { done: [deliveries[0]!.receipt] } });
    await expect(call('drop_tables', {})).rejects.toMatchObject({ code: -32602 });
    await client.close();
  });
});

test.each(['2025-11-25', '2025-06-18', '2025-03-26'])('a client that asks for %s gets it', async (revision) => {
  const initialize = {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: revision, capabilities: {}, clientInfo: about },
  };
  const { body } = await post(app.url, agent.credential, initialize);
  expect(body.result).toMatchObject({ protocolVersion: revision, capabilities: { tools: {} } });
  const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' };
  const listed = await post(app.url, agent.credential, list, { 'mcp-protocol-version': revision });
  expect([listed.status, listed.body.result.tools.length]).toEqual([200, 6]);
});
