/** Slow and broken clients: they cost bounded memory for a bounded time, and other clients are served. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { addAgent, send, startAgentApp } from '../helpers/agents.ts';
import { startTestApp } from '../helpers/app.ts';
import { RawClient, signatureOf, signedRequest } from '../helpers/requests.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { PATIENCE_MS, until } from '../helpers/wait.ts';

const SLOW_SENDERS = 200;
const BODY_BYTES = 100_000;

const app = shared(startTestApp);
const webhook = shared(() => app.addWebhook());

const heldBytes = () => app.metric('weir_body_bytes_held');
const aborted = () => app.metric('weir_requests_aborted_total');
const openRequests = () => app.metric('weir_open_requests');

/** A signed head that declares BODY_BYTES, and the start of the body. */
function begin(firstBytes: number): string {
  const body = 'x'.repeat(BODY_BYTES);
  const fields = [`Content-Length: ${BODY_BYTES}`, `X-Hub-Signature-256: ${signatureOf(webhook.secret!, body)}`];
  return `POST ${webhook.path} HTTP/1.1\r\nHost: x\r\n${fields.join('\r\n')}\r\n\r\n${body.slice(0, firstBytes)}`;
}

async function expectServed(): Promise<void> {
  const answer = await fetch(webhook.url, signedRequest({ secret: webhook.secret }));
  expect(answer.status).toBe(202);
  await answer.arrayBuffer();
}

const eventCount = async () => {
  const rows = await app.sql<{ count: string }>('select count(*) from events');
  return Number(rows[0]!.count);
};

test.each([
  ['in the middle of its body', 50_000],
  ['before the first byte of it', 0],
])('a client that disconnects %s is counted, and its memory is released', async (_when, sentBytes) => {
  const before = { aborted: await aborted(), events: await eventCount() };
  const clients = await Promise.all(Array.from({ length: 20 }, () => RawClient.connect(app.port)));
  await Promise.all(clients.map((client) => client.send(begin(sentBytes))));
  await until(async () => (await openRequests()) === 20);
  await until(async () => (await heldBytes()) === 20 * sentBytes);
  for (const client of clients) client.destroy();
  await until(async () => (await aborted()) === before.aborted + 20);
  expect(await heldBytes()).toBe(0);
  expect(await openRequests()).toBe(0);
  expect(await eventCount()).toBe(before.events);
  await expectServed();
});

test('the event of a client that disconnects before the response is stored or not, and nothing is held', async () => {
  const before = await app.metric('weir_events_committed_total');
  const body = '{"hello":"world"}';
  const head = `POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n`;
  const request = `${head}X-Hub-Signature-256: ${signatureOf(webhook.secret!, body)}\r\n\r\n${body}`;
  for (let i = 0; i < 20; i++) {
    const client = await RawClient.connect(app.port);
    await client.send(request);
    client.destroy();
  }
  await expectServed();
  await until(async () => (await openRequests()) === 0 && (await heldBytes()) === 0);
  const committed = (await app.metric('weir_events_committed_total')) - before;
  expect(committed).toBeGreaterThanOrEqual(1);
  expect(committed).toBeLessThanOrEqual(21);
});

// uWebSockets.js checks every four seconds and allows an upload twelve; a busy machine takes longer.
test('slow senders and partial heads do not block others, and are disconnected; a claim waits longer', {
  timeout: 2 * PATIENCE_MS,
}, async () => {
  const waiting = await ofTest(startAgentApp());
  const claimed = await waiting.addWebhook();
  const agent = await addAgent(waiting, [claimed]);
  const claim = agent.claim({ wait_seconds: 30 });
  const before = await aborted();
  const slow = await Promise.all(Array.from({ length: SLOW_SENDERS }, () => RawClient.connect(app.port)));
  await Promise.all(slow.map((client) => client.send(begin(1))));
  const halfHeads = await Promise.all(Array.from({ length: 20 }, () => RawClient.connect(app.port)));
  await Promise.all(halfHeads.map((client) => client.send(`POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nX-Sl`)));
  await until(async () => (await openRequests()) === SLOW_SENDERS);
  expect(await heldBytes()).toBe(SLOW_SENDERS);

  let sending = true;
  const drip = (async () => {
    while (sending) {
      // This is not a wait: it sends one byte a second.
      await delay(1000);
      await Promise.all(slow.filter((client) => !client.closed).map((client) => client.send('x')));
    }
  })();
  try {
    for (let i = 0; i < 50; i++) await expectServed();
    await until(async () => (await openRequests()) === 0);
    await Promise.all([...slow, ...halfHeads].map((client) => client.ended()));
    // The idle timeout of a connection, ten seconds, has passed for the claim too: it gets its response. Nothing if its wait is over.
    const id = await send(claimed);
    expect([[], [id]]).toContainEqual((await claim).map(({ event }) => event.id));
  } finally {
    sending = false;
    await drip;
    for (const client of [...slow, ...halfHeads]) client.destroy();
  }
  expect(await aborted()).toBe(before + SLOW_SENDERS);
  expect(await heldBytes()).toBe(0);
  await expectServed();
});
