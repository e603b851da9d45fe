/**
 * Many connections at one process: idle ones, senders that have sent one byte of their body, and unfinished heads. The memory of each is
 * reported.
 * `CONNECTIONS_FACTOR=10` runs 10,000 idle connections and 1,000 slow senders.
 */
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { RawClient, signatureOf } from '../../helpers/requests.ts';
import { startSender } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';

const FACTOR = Number(process.env.CONNECTIONS_FACTOR ?? 1);
const IDLE = 1_000 * FACTOR;
const SLOW = 100 * FACTOR;
const BODY_BYTES = 100_000;
const HEADS = 3_000;
/** HEADER_BYTES_MAX, and 2,048 for the request line: one more byte is answered 431. */
const HEAD_BYTES = 16_384 + 2_048 - 1;
const HEADS_BYTES_MAX = 64 * 1_048_576;
/** Several times what was measured: about 4 KiB for an idle connection and 12 KiB for a slow sender. */
const CONNECTION_BYTES_MAX = 65_536;

/** Tests of a Weir with one process. CLIENT_REQUESTS_MAX stays changed. */
export function connectionTests(chain: Chain): void {
  async function expectServed(requests: number): Promise<void> {
    const sender = startSender({ port: chain.weir.port, ...chain.webhook, perSecondMax: Infinity });
    await sender.acceptMore(requests);
    await sender.stop();
    expect([sender.refusals, sender.losses]).toEqual([[], []]);
  }

  /** Opens connections that each send this, until Weir has them all; replaces those that Weir closes as idle. Returns the bytes of each. */
  async function open(count: number, text: string): Promise<{ clients: RawClient[]; bytes: number }> {
    const connections = () => chain.weir.metric('weir_connections');
    const resident = () => chain.weir.metric('weir_resident_bytes');
    const before = { bytes: await resident(), connections: await connections() };
    let clients: RawClient[] = [];
    await until(async () => {
      clients = clients.filter((client) => !client.closed);
      const more = Array.from({ length: count - clients.length }, () => RawClient.connect(chain.weir.port));
      const added = await Promise.all(more);
      clients.push(...added);
      await Promise.all(added.map((client) => client.send(text)));
      return (await connections()) >= before.connections + 0.95 * count;
    });
    const bytes = ((await resident()) - before.bytes) / ((await connections()) - before.connections);
    return { clients, bytes };
  }

  test(`${IDLE} idle connections cost little memory, and others are served`, async () => {
    await chain.configure({ CLIENT_REQUESTS_MAX: 2_000 * FACTOR });
    // Send requests first, so that the heap has its usual size.
    await expectServed(2_000);
    const { clients, bytes } = await open(IDLE, 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    try {
      console.log(`an idle connection takes ${(bytes / 1024).toFixed(1)} KiB`);
      expect(bytes).toBeLessThan(CONNECTION_BYTES_MAX);
      await expectServed(500);
    } finally {
      for (const client of clients) client.destroy();
    }
    await until(async () => (await chain.weir.metric('weir_connections')) < 100);
  });

  test(`${SLOW} slow senders cost little memory, and others are served`, async () => {
    const signature = signatureOf(chain.webhook.secret, 'x'.repeat(BODY_BYTES));
    const fields = [`Content-Length: ${BODY_BYTES}`, `X-Hub-Signature-256: ${signature}`];
    const { clients, bytes } = await open(
      SLOW,
      `POST ${chain.webhook.path} HTTP/1.1\r\nHost: x\r\n${fields.join('\r\n')}\r\n\r\nx`,
    );
    try {
      console.log(`a slow sender takes ${(bytes / 1024).toFixed(1)} KiB`);
      expect(bytes).toBeLessThan(CONNECTION_BYTES_MAX);
      expect(await chain.weir.metric('weir_body_bytes_held')).toBeLessThanOrEqual(SLOW);
      await expectServed(500);
    } finally {
      for (const client of clients) client.destroy();
    }
    await until(async () => (await chain.weir.metric('weir_body_bytes_held')) === 0);
  });

  test('3,000 unfinished heads of the largest size take at most 64 MiB, and others are served', async () => {
    const { clients, bytes } = await open(HEADS, 'GET / HTTP/1.1\r\nHost: x\r\nX-A: '.padEnd(HEAD_BYTES, 'x'));
    try {
      console.log(`an unfinished head takes ${(bytes / 1024).toFixed(1)} KiB`);
      expect(bytes * HEADS).toBeLessThan(HEADS_BYTES_MAX);
      await expectServed(500);
    } finally {
      for (const client of clients) client.destroy();
    }
    await until(async () => (await chain.weir.metric('weir_connections')) < 100);
  });

  test('a longer head is answered 431 before it is complete', async () => {
    const client = await RawClient.connect(chain.weir.port);
    await client.send('GET / HTTP/1.1\r\nHost: x\r\nX-A: '.padEnd(HEAD_BYTES, 'x'));
    await client.send('xxxx');
    expect((await client.answer())!.status).toBe(431);
    await client.ended();
  });
}
