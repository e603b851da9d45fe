/** The Redis of the rate limit fails over to its replica, behind one address as with a virtual address or HAProxy, and is flushed. */
import { connect, createServer, type Server, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { freePort } from '../../helpers/ports.ts';
import { startRedis } from '../../helpers/redis.ts';
import { startSender } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { sharedLimits } from './redis.ts';

const LIMIT = 150;
const BEFORE = 60;

/** A port that forwards to another one, which can be exchanged. */
async function startForwarder(target: number) {
  const sockets = new Set<Socket>();
  let port = target;
  const server: Server = createServer((client) => {
    const store = connect(port, '127.0.0.1');
    for (const socket of [client, store]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        client.destroy();
        store.destroy();
        sockets.delete(socket);
      });
    }
    client.pipe(store).pipe(client);
  });
  const own = await freePort();
  await new Promise<void>((resolve) => server.listen(own, '127.0.0.1', resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: own,
    switchTo(next: number) {
      port = next;
      cut();
    },
    stop() {
      server.close();
      cut();
    },
  };
}

export function redisFailoverTests(chain: Chain): void {
  test('counters survive a failover, a read-only replica fails open, and a flush starts at zero', async () => {
    const first = await startRedis();
    onTestFinished(() => first.stop());
    const second = await startRedis({ settings: ['--replicaof', '127.0.0.1', String(first.port)] });
    onTestFinished(() => second.stop());
    await until(async () => (await second.cli('info', 'replication')).includes('master_link_status:up'));
    const forwarder = await startForwarder(first.port);
    onTestFinished(() => forwarder.stop());
    await chain.configure(sharedLimits(`redis://127.0.0.1:${forwarder.port}`));
    const { weir } = chain;
    const degraded = (count: number) => until(async () => (await weir.metric('weir_rate_limit_degraded')) === count);
    const uncounted = () => weir.metric('weir_requests_uncounted_total');
    /** Sends one after another until this many are accepted or one is refused; returns how many of them were counted. */
    const send = async (webhook: { path: string; secret: string }, most: number) => {
      const before = await uncounted();
      const sender = startSender({ port: weir.port, ...webhook, lanes: 1, keepAlive: false });
      await until(() => sender.accepted.size >= most || sender.refusals.length > 0);
      await sender.stop();
      expect(new Set(sender.refusals.map(({ code }) => code))).toEqual(
        new Set(sender.refusals.length > 0 ? ['rate_limited'] : []),
      );
      expect(sender.losses).toEqual([]);
      return sender.accepted.size - ((await uncounted()) - before);
    };

    const webhook = await weir.addWebhook(LIMIT);
    const counted = await send(webhook, BEFORE);
    await until(async () => (await second.cli('info', 'replication')).includes('master_link_status:up'));
    const offset = async (redis: typeof first) =>
      (await redis.cli('info', 'replication')).match(/master_repl_offset:(\d+)/)![1];
    await until(async () => (await offset(first)) === (await offset(second)));

    // The address moves to the replica before it is promoted.
    await first.stop();
    forwarder.switchTo(second.port);
    await until(async () => {
      await send(webhook, 1);
      return (await weir.metric('weir_rate_limit_degraded')) > 0;
    });
    await second.cli('replicaof', 'no', 'one');
    await degraded(0);
    // What was counted before the failover still counts. A request whose count was late was allowed uncounted, and may count nevertheless.
    const rest = await send(webhook, 2 * LIMIT);
    expect(rest).toBeGreaterThan(0);
    expect(rest).toBeLessThanOrEqual(LIMIT - counted);

    const other = await weir.addWebhook(LIMIT);
    const beforeFlush = await send(other, BEFORE);
    await second.cli('flushall');
    await degraded(0);
    const afterFlush = await send(other, 2 * LIMIT);
    expect(afterFlush).toBeGreaterThan(LIMIT - beforeFlush);
    expect(afterFlush).toBeLessThanOrEqual(LIMIT);
  });
}
