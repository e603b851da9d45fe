/** `weir mcp`: the official client over standard input and output, against a real Weir. */
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { ReadBuffer, serializeMessage, type Transport } from '@modelcontextprotocol/client';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { runCommand } from '../../../server/cli/command/run-command.ts';
import { commands } from '../../../server/cli/commands.ts';
import { eventReader } from '../../../server/cli/mcp/messages.ts';
import { createCredential } from '../../../server/model/credential.ts';
import { addAgent, letPass, rowOf, send, startAgentApp } from '../../helpers/agents.ts';
import { startTestApp } from '../../helpers/app.ts';
import { McpAgent } from '../../helpers/mcp.ts';
import { addPerson } from '../../helpers/people.ts';
import { freePort } from '../../helpers/ports.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const entry = fileURLToPath(new URL('../../../dist/server/cli/weir.js', import.meta.url));

const app = shared(startAgentApp);
const webhook = shared(() => app.addWebhook());
const agent = shared(() => addAgent(app, [webhook]));
const directory = temporaryDirectory();
beforeAll(async () => {
  await writeFile(join(directory, 'credential'), agent.credential, { mode: 0o600 });
});

interface Running {
  stdin: NodeJS.WritableStream;
  /** Everything on standard output that is not a JSON-RPC message. */
  faults: Error[];
  transport: Transport;
  stderr: () => string;
  ended: Promise<number | string | null>;
}

const running: Running[] = [];
afterEach(async () => {
  for (const { stdin, ended } of running.splice(0)) {
    stdin.end();
    await ended;
  }
});

function follow(
  stdin: NodeJS.WritableStream,
  stdout: NodeJS.ReadableStream,
  stderr: NodeJS.ReadableStream,
  ended: Running['ended'],
): Running {
  let text = '';
  stderr.on('data', (chunk) => {
    text += chunk;
  });
  const faults: Error[] = [];
  const transport: Transport = {
    start: async () => {
      const buffer = new ReadBuffer();
      stdout.on('data', (chunk) => {
        buffer.append(chunk);
        try {
          for (let message = buffer.readMessage(); message !== null; message = buffer.readMessage())
            transport.onmessage?.(message);
        } catch (error) {
          faults.push(error as Error);
        }
      });
    },
    send: async (message) => {
      stdin.write(serializeMessage(message));
    },
    close: async () => transport.onclose?.(),
  };
  const started = { stdin, faults, transport, stderr: () => text, ended };
  running.push(started);
  return started;
}

/** `weir mcp` as a client starts it. */
function spawned(): Running & { child: ChildProcess } {
  const args = [entry, 'mcp', '--url', app.url, '--credential-file', 'credential'];
  const child = spawn(process.execPath, args, { cwd: directory, stdio: 'pipe' });
  const ended = new Promise<number | string | null>((resolve) =>
    child.once('exit', (code, signal) => resolve(code ?? signal)),
  );
  return { ...follow(child.stdin, child.stdout, child.stderr, ended), child };
}

/** `weir mcp` in this process. */
function started(url = app.url, credentialFile = 'credential'): Running {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const args = ['mcp', '--url', url, '--credential-file', credentialFile];
  const ended = runCommand(commands, args, { environment: {}, directory, stdin, stdout, stderr });
  return follow(stdin, stdout, stderr, ended);
}

const claimsWaiting = (count: number) => until(async () => (await app.metric('weir_claims_waiting')) === count);

test('an agent that is killed between wait and acknowledge gets the event again; it ends when stdin ends', async () => {
  const first = spawned();
  const before = await McpAgent.at(first.transport);
  const waiting = before.done('wait_for_events', { wait_seconds: 30, lease_seconds: 3_600 });
  const eventId = await send(webhook, '{"order":7}');
  const [lost] = (await waiting).deliveries;
  expect(lost).toMatchObject({ event_id: eventId, attempt: 1, untrusted_content: { body: '{"order":7}' } });
  first.child.kill('SIGKILL');
  expect(await first.ended).toBe('SIGKILL');
  await letPass(app.database, 3_600);

  const second = spawned();
  const after = await McpAgent.at(second.transport);
  expect(await after.tools()).toHaveLength(6);
  const [again] = (await after.done('wait_for_events', { wait_seconds: 30 })).deliveries;
  expect(again).toMatchObject({ event_id: eventId, delivery_id: lost.delivery_id, attempt: 2 });
  expect(await after.done('acknowledge', { receipts: [lost.receipt] })).toMatchObject({ gone: [lost.receipt] });
  expect(await after.done('acknowledge', { receipts: [again.receipt] })).toMatchObject({ done: [again.receipt] });
  expect((await rowOf(app.database, again.delivery_id)).state).toBe('done');
  second.stdin.end();
  expect([await second.ended, second.stderr(), second.faults]).toEqual([0, '', []]);
});

test('a streamed answer is one line, whatever separators of Unicode are in its text', () => {
  const events = eventReader(() => {});
  const answer = { jsonrpc: '2.0', id: 1, result: { body: 'a\u2028b\u2029c' } };
  events.add(Buffer.from(`event: message\ndata: ${JSON.stringify(answer)}\n\n`));
  expect(events.last()).toEqual(answer);
});

test('progress of a call that waits reaches the client', async () => {
  const mcp = await McpAgent.at(started().transport);
  let eventId = '';
  const onprogress = async () => {
    if (eventId === '') eventId = await send(webhook);
  };
  const given = { name: 'wait_for_events', arguments: { wait_seconds: 30 } };
  const { structuredContent } = await mcp.client.callTool(given, { onprogress });
  const { deliveries } = structuredContent as { deliveries: { event_id: string; receipt: string }[] };
  expect(deliveries.map(({ event_id }) => event_id)).toEqual([eventId]);
  await mcp.done('acknowledge', { receipts: deliveries.map(({ receipt }) => receipt) });
});

test('when stdin ends, a long poll ends with it, and leases nothing', async () => {
  const { transport, stdin, ended } = started();
  const mcp = await McpAgent.at(transport);
  mcp.call('wait_for_events', { wait_seconds: 30 }).catch(() => {});
  await claimsWaiting(1);
  stdin.end();
  expect(await ended).toBe(0);
  await claimsWaiting(0);
});

test('a call that the client cancels ends at the server too', async () => {
  const mcp = await McpAgent.at(started().transport);
  const cancel = new AbortController();
  const given = { name: 'wait_for_events', arguments: { wait_seconds: 30 } };
  const waiting = mcp.client.callTool(given, { signal: cancel.signal });
  await claimsWaiting(1);
  cancel.abort();
  await expect(waiting).rejects.toThrow();
  await claimsWaiting(0);
  expect(await mcp.done('wait_for_events', { wait_seconds: 0 })).toEqual({ deliveries: [], paused: false });
});

test('a restart of Weir is a tool error that says what to do, and then all works again', async () => {
  const PORT = await freePort();
  const limits = { PORT, RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000 };
  const before = await startTestApp(limits, app);
  const { transport, stderr } = started(before.url);
  const mcp = await McpAgent.at(transport);
  await before.stop();
  const { isError, data } = await mcp.call('search_events');
  expect([isError, data.code, data.detail]).toEqual([true, 'unreachable', expect.stringContaining('call again')]);
  const after = await startTestApp(limits, app);
  try {
    expect(await mcp.done('wait_for_events', { wait_seconds: 0 })).toEqual({ deliveries: [], paused: false });
    expect(stderr()).toMatch(/^weir mcp: http:\S+ did not answer: \w+\.\nweir mcp: http:\S+ answers again\.\n$/);
  } finally {
    await after.stop();
  }
});

test('a line that is not a JSON-RPC message is answered with an error, and the next one works', async () => {
  const one = started();
  const answers: unknown[] = [];
  await one.transport.start();
  one.transport.onmessage = (message) => answers.push(message);
  for (const line of ['{"jsonrpc":', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', '{"id":7}', '"text"'])
    one.stdin.write(`${line}\n`);
  one.stdin.write('{"jsonrpc":"2.0","id":9,"method":"ping"}\n');
  await until(() => answers.length === 1);
  expect(answers).toEqual([{ jsonrpc: '2.0', id: 9, result: {} }]);
  expect(one.faults).toHaveLength(4);
});

test('an API token in the file serves the tools of users', async () => {
  const { token } = await addPerson(app, 'viewer');
  await writeFile(join(directory, 'token'), token, { mode: 0o600 });
  const mcp = await McpAgent.at(started(app.url, 'token').transport);
  const { webhooks } = await mcp.done('list_webhooks');
  expect(webhooks).toMatchObject([{ webhook_id: webhook.id }]);
});

describe('what cannot work', () => {
  test('a refused credential is named at initialization, without any part of it', async () => {
    const { text } = createCredential('wa');
    await writeFile(join(directory, 'revoked'), text, { mode: 0o600 });
    const connecting = McpAgent.at(started(app.url, 'revoked').transport);
    await expect(connecting).rejects.toMatchObject({
      code: -32_000,
      message: expect.stringMatching(/refused the credential.*weir agent rotate/),
      data: { code: 'credential_refused' },
    });
    await expect(connecting).rejects.not.toMatchObject({ message: expect.stringContaining(text.slice(3, 12)) });
  });

  test('a URL without Weir is named at initialization', async () => {
    await expect(McpAgent.at(started(`${app.url}/elsewhere`).transport)).rejects.toMatchObject({
      message: expect.stringContaining("give the base URL of Weir's API"),
    });
  });

  test('a missing credential file ends the command', async () => {
    const { ended, stderr } = started(app.url, 'missing');
    expect(await ended).toBe(1);
    expect(stderr()).toBe('weir: missing cannot be read: there is no such file.\n');
  });
});
