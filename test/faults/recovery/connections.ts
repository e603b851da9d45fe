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

  const metric = (name: string) => chain.weir.metric(name);

  /** Opens connections that each send this, until Weir has them all; replaces those that Weir closes as idle. Returns the bytes of each. */
  async function open(count: number, text: string): Promise<{ clients: RawClient[]; bytes: number }> {
    const before = { bytes: await metric('weir_resident_bytes'), connections: await metric('weir_connections') };
    let clients: RawClient[] = [];
    await until(async () => {
      clients = clients.filter((client) => !client.closed);
      const more = Array.from({ length: count - clients.length }, () => RawClient.connect(chain.weir.port));
      const added = await Promise.all(more);
      clients.push(...added);
      await Promise.all(added.map((client) => client.send(text)));
      return (await metric('weir_connections')) >= before.connections + 0.95 * count;
    });
    const opened = (await metric('weir_connections')) - before.connections;
    return { clients, bytes: ((await metric('weir_resident_bytes')) - before.bytes) / opened };
  }

  const slow = () => {
    const signature = signatureOf(chain.webhook.secret, 'x'.repeat(BODY_BYTES));
    const fields = [`Content-Length: ${BODY_BYTES}`, `X-Hub-Signature-256: ${signature}`];
    return `POST ${chain.webhook.path} HTTP/1.1\r\nHost: x\r\n${fields.join('\r\n')}\r\n\r\nx`;
  };
  const head = 'GET / HTTP/1.1\r\nHost: x\r\nX-A: '.padEnd(HEAD_BYTES, 'x');

  const rows: readonly [what: string, count: number, text: () => string, bytesMax: number][] = [
    ['idle connections', IDLE, () => 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n', CONNECTION_BYTES_MAX],
    ['slow senders', SLOW, slow, CONNECTION_BYTES_MAX],
    ['unfinished heads of the largest size', HEADS, () => head, HEADS_BYTES_MAX / HEADS],
  ];
  test.each(rows)('%s (%i) take little memory, and others are served', async (what, count, text, bytesMax) => {
    await chain.configure({ CLIENT_REQUESTS_MAX: 2_000 * FACTOR });
    // Send requests first, so that the heap has its usual size.
    await expectServed(2_000);
    const { clients, bytes } = await open(count, text());
    try {
      console.log(`${what}: each takes ${(bytes / 1024).toFixed(1)} KiB`);
      expect(bytes).toBeLessThan(bytesMax);
      expect(await metric('weir_body_bytes_held')).toBeLessThanOrEqual(SLOW);
      await expectServed(500);
    } finally {
      for (const client of clients) client.destroy();
    }
    await until(async () => (await metric('weir_connections')) < 100 && (await metric('weir_body_bytes_held')) === 0);
  });

  test('a longer head is answered 431 before it is complete', async () => {
    const client = await RawClient.connect(chain.weir.port);
    await client.send(`${head}xxxx`);
    expect((await client.answer())!.status).toBe(431);
    await client.ended();
  });
}
