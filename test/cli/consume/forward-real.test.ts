/** Forwarding with a real Weir: real port, real Postgres, and a real target. */
import { spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FAILURES_MAX, TargetBreaker } from '../../../server/cli/consume/breaker.ts';
import { forwarder } from '../../../server/cli/consume/forward.ts';
import { openTarget } from '../../../server/cli/consume/target.ts';
import { Agent } from '../../../server/deliver/client/index.ts';
import { definitionOf } from '../../../server/model/signatures/presets.ts';
import { signRequest } from '../../../server/model/signatures/sign.ts';
import type { NewWebhook } from '../../../server/model/webhooks.ts';
import { addAgent, send, startAgentApp, type TestAgent } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { ForwardTarget } from '../../helpers/forward-target.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { startConsume } from '../command.ts';

const weir = shared(startAgentApp);
let target: ForwardTarget;
const directory = temporaryDirectory();
beforeEach(async () => {
  target = new ForwardTarget();
  await target.start();
});
afterEach(() => target.stop());

async function credentialOf({ id, credential }: TestAgent): Promise<string> {
  await writeFile(join(directory, id), credential, { mode: 0o600 });
  return id;
}

async function consume(agent: TestAgent, ...args: string[]) {
  return startConsume([weir.url, '--credential-file', await credentialOf(agent), ...args], { directory });
}

const statesOf = async ({ id }: TestAgent) =>
  (await weir.sql<{ state: string }>('select state from deliveries where agent_id = $1 order by state', id)).map(
    ({ state }) => state,
  );

const pair = generateKeyPairSync('ed25519');
const pem = pair.privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
const publicKey = pair.publicKey.export({ format: 'pem', type: 'spki' }) as string;
const schemes: [string, Partial<NewWebhook>][] = [
  ['sha256', {}],
  ['sha256', { signature_header: 'x-own-signature' }],
  ['stripe', {}],
  ['slack', {}],
  ['standard-webhooks', {}],
  ['discord', { public_key: publicKey }],
];

test.each(schemes)(
  'a webhook of the scheme %s accepts what is forwarded, with another secret',
  async (scheme, given) => {
    const add = (secret: string) =>
      weir.addWebhook({ signature_scheme: scheme, ...given, secret: scheme === 'discord' ? null : secret });
    const [source, receiver] = [await add('c2VjcmV0IG9uZQ=='), await add('c2VjcmV0IHR3bw==')];
    const agent = await addAgent(weir, [source]);
    const body = Buffer.from('{"type":"order.paid",  "n":1}');
    await sendSigned(source, scheme, given.signature_header ?? null, body);

    await writeFile(join(directory, 'key'), pem);
    const key = scheme === 'discord' ? ['--private-key', 'key'] : ['--secret', 'c2VjcmV0IHR3bw=='];
    const { ended } = await consume(agent, '--once', '--forward', receiver.url, ...key);
    const { exitCode, out, err } = await ended;
    expect(exitCode, err).toBe(0);
    expect(out).toMatch(/^\d\d:\d\d:\d\d {2}POST .* 29 B .* 20[24] {2}test\n$/);
    const [event] = await weir.sql<{ body: Buffer }>('select body from events where webhook_id = $1', receiver.id);
    expect(event!.body).toEqual(body);
    expect(await statesOf(agent)).toEqual(['done']);
  },
);

async function sendSigned(webhook: TestWebhook, scheme: string, header: string | null, body: Buffer): Promise<void> {
  const definition = {
    ...definitionOf({ signatureScheme: scheme, schemeDefinition: null, signatureHeader: header, publicKey: null })!,
  };
  if (header !== null) definition.header = header;
  const key = Buffer.from(scheme === 'discord' ? pem : webhook.secret!);
  const order = { body, method: 'POST', url: webhook.url, id: 'msg_1', timeMs: Date.now() };
  const { headers } = signRequest(definition, key, order);
  const answer = await fetch(webhook.url, { method: 'POST', headers, body: new Uint8Array(body) });
  // The status of an event that was stored is that of its scheme.
  expect(answer.headers.get('x-weir-event-id'), await answer.text()).toMatch(/^[0-9a-f-]{36}$/);
}

test('what cannot be signed is not sent: the key of the scheme is missing', async () => {
  const source = await weir.addWebhook({ signature_scheme: 'stripe' });
  const agent = await addAgent(weir, [source]);
  await sendSigned(source, 'stripe', null, Buffer.from('{}'));
  await writeFile(join(directory, 'key'), pem);
  const { ended } = await consume(agent, '--once', '--json', '--forward', target.url, '--private-key', 'key');
  const { out } = await ended;
  expect(JSON.parse(out)).toMatchObject({ status: null, problem: expect.stringMatching(/^not signed: .* --secret$/) });
  expect(target.arrived).toEqual([]);
  const [row] = await weir.sql('select state, reason from deliveries where agent_id = $1', agent.id);
  expect(row).toMatchObject({ state: 'pending', reason: expect.stringContaining('not signed') });
});

test('while the target is absent nothing more is claimed; when it is back, everything is forwarded', async () => {
  const source = await weir.addWebhook();
  const { id, credential } = await addAgent(weir, [source]);
  const total = 4 * FAILURES_MAX;
  for (let i = 0; i < total; i++) await send(source, `{"n":${i}}`);
  const address = new URL(target.url);
  await target.stop();

  const stop = new AbortController();
  const counts = { claimed: 0, done: 0, failed: 0, gone: 0 };
  const reports: string[] = [];
  const probes: (() => void)[] = [];
  const opened = openTarget(address, { connectionsMax: 2, timeoutMs: 60_000 });
  const breaker = new TargetBreaker({
    target: opened,
    report: (line) => reports.push(line),
    stop: stop.signal,
    wait: () => new Promise((resolve) => probes.push(resolve)),
  });
  const handler = forwarder({ target: opened, breaker, signingOf: async () => null, attempted: () => {} });
  const agent = new Agent({ url: weir.url, credential, notify: () => {} });
  const running = agent.run(handler, { concurrency: 2, counts, signal: stop.signal });
  await until(() => probes.length === 1);
  probes[0]!();
  await until(() => probes.length === 2);
  // One that was in flight when the breaker opened may fail as well; two wait in their slots, the others are released.
  await until(() => counts.claimed - counts.failed === 2);
  expect(counts.failed).toBeLessThanOrEqual(FAILURES_MAX + 1);
  expect(counts.done).toBe(0);
  expect(reports).toEqual([expect.stringMatching(/: 5 failures in a row, the last one ECONNREFUSED\. No more/)]);

  await target.start();
  probes[1]!();
  // The failed ones wait for their next attempt.
  await until(() => counts.done >= total - FAILURES_MAX - 1);
  expect(reports[1]).toMatch(/ answers again; deliveries are forwarded\.$/);
  await weir.sql(`update deliveries set available_at = now() where agent_id = $1 and state = 'pending'`, id);
  await until(() => counts.done === total);
  stop.abort();
  await running;
  opened.close();
  const forwarded = target.arrived.map(({ body }) => JSON.parse(body.toString()).n);
  expect(forwarded.sort((a, b) => a - b)).toEqual(Array.from({ length: total }, (_, n) => n));
});

test('an agent that is killed after the 2xx and before the acknowledgement delivers again, with the same delivery id', async () => {
  const source = await weir.addWebhook();
  const agent = await addAgent(weir, [source]);
  await send(source, '{"n":1}');
  const command = fileURLToPath(new URL('../../../dist/server/cli/weir.js', import.meta.url));
  const file = join(directory, await credentialOf(agent));
  const child = spawn(
    process.execPath,
    [command, 'consume', weir.url, '--credential-file', file, '--forward', target.url],
    { stdio: 'ignore' },
  );
  const exited = new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)));
  target.answering = (response) => {
    // The target has processed the request, and the agent is killed before it reads the answer.
    child.kill('SIGKILL');
    response.writeHead(200).end();
  };
  expect(await exited).toBe('SIGKILL');
  expect(await statesOf(agent)).toEqual(['leased']);

  await weir.sql('update deliveries set available_at = now() where agent_id = $1', agent.id);
  target.answering = (response) => void response.writeHead(200).end();
  expect((await (await consume(agent, '--once', '--forward', target.url)).ended).exitCode).toBe(0);
  const [first, second] = target.arrived.map(({ headers }) => headers);
  expect(second).toMatchObject({ 'weir-delivery-id': first!['weir-delivery-id'], 'weir-attempt': '2' });
  expect(await statesOf(agent)).toEqual(['done']);
});
