/** The agent library with a real Weir, and the faults of either side. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { Agent } from '../../../server/deliver/client/index.ts';
import { addAgent, agentsOf, letPass, rowOf, send, startAgentApp } from '../../helpers/agents.ts';
import { startTestApp } from '../../helpers/app.ts';
import { freePort } from '../../helpers/ports.ts';
import { shared } from '../../helpers/shared.ts';
import { gate, until } from '../../helpers/wait.ts';

const SECRETS_KEY = randomBytes(32).toString('base64');
const client = fileURLToPath(new URL('../../../dist/client/deliver/client/index.js', import.meta.url));

const app = shared(() => startAgentApp({ SECRETS_KEY }));

async function subscribed() {
  const webhook = await app.addWebhook({ name: 'orders' });
  const { id, credential } = await addAgent(app, [webhook]);
  return { webhook, id, credential };
}

test('me names the agent and counts what waits for it', async () => {
  const { webhook, id, credential } = await subscribed();
  await send(webhook);
  const agent = new Agent({ url: app.url, credential });
  expect(await agent.me()).toMatchObject({ id, pending: 1, oldest_pending_seconds: expect.any(Number) });
});

test('the error of a refused call names the members that are wrong', async () => {
  const { credential } = await subscribed();
  const agent = new Agent({ url: app.url, credential });
  const answer = 'answered api/v1/agent/deliveries/claim with 422: /webhook_ids/0: Give an id, such as ';
  await expect(agent.run(() => {}, { webhookIds: ['orders'] })).rejects.toThrow(answer);
});

test('after a revocation the run ends with an error that names the code and the fix', async () => {
  const { webhook, id, credential } = await subscribed();
  const agent = new Agent({ url: app.url, credential, notify: () => {} });
  const run = agent.run(() => {}, { waitSeconds: 0 });
  const ended = run.then(
    () => null,
    (error: unknown) => error,
  );
  const eventId = await send(webhook);
  await until(async () => (await deliveryOf(eventId))?.state === 'done');
  await agentsOf(app).revoke(id);
  expect(await ended).toMatchObject({
    name: 'WeirError',
    code: 'credential_refused',
    status: 401,
    fix: 'Print a new credential with `weir agent rotate ID`, and give it to this agent.',
  });
});

test('an agent killed between claim and ack loses nothing: the delivery comes again', async () => {
  const { webhook, credential } = await subscribed();
  const eventId = await send(webhook, 'important');
  const program = `
    import { Agent } from ${JSON.stringify(client)};
    const agent = new Agent({ url: ${JSON.stringify(app.url)}, credential: process.env.WEIR_CREDENTIAL });
    await agent.run(() => process.kill(process.pid, 'SIGKILL'));`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    env: { ...process.env, WEIR_CREDENTIAL: credential },
    stdio: 'inherit',
  });
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
  const { id } = (await deliveryOf(eventId))!;
  expect(await rowOf(app.database, id)).toMatchObject({ state: 'leased', attempts: 1 });
  await letPass(app.database, 60);
  const attempts: number[] = [];
  await new Agent({ url: app.url, credential }).run(({ attempt }) => attempts.push(attempt), {
    max: 1,
    waitSeconds: 1,
  });
  expect(attempts).toEqual([2]);
  expect(await rowOf(app.database, id)).toMatchObject({ state: 'done' });
});

test('a restart of Weir during the work is survived: the delivery is settled, and later ones arrive', async () => {
  // Not a port of outgoing connections: a client that repeats its connection would get the port itself.
  const settings = { SECRETS_KEY, PORT: await freePort() };
  const first = await startTestApp(settings, app);
  const { webhook, credential } = await subscribed();
  const ids = [await send(webhook)];
  const { opened: held, open: release } = gate();
  const begun: string[] = [];
  const agent = new Agent({ url: first.url, credential, notify: () => {} });
  const run = agent.run(
    async ({ event }) => {
      begun.push(event.id);
      await held;
    },
    { max: 2 },
  );
  await until(() => begun.length === 1);
  await first.stop();
  const again = await startTestApp(settings, app);
  try {
    release();
    ids.push(await send(webhook));
    expect(await run).toEqual({ claimed: 2, done: 2, failed: 0, gone: 0 });
    expect(begun).toEqual(ids);
  } finally {
    agent.close();
    await again.stop();
  }
});

async function deliveryOf(eventId: string): Promise<{ id: string; state: string } | undefined> {
  const rows = await app.sql<{ id: string; state: string }>(
    'select id, state from deliveries where event_id = $1',
    eventId,
  );
  return rows[0];
}
