/** Shared rate-limit counters: exact over all processes while Redis is available, and no reason to refuse a request otherwise. */
import { expect, onTestFinished, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { Link } from '../../helpers/link.ts';
import { type RedisServer, startRedis } from '../../helpers/redis.ts';
import { type Sender, startSender } from '../../helpers/sender.ts';
import { ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { kill, readiness } from '../../helpers/weir.ts';

const LIMIT = 150;
const BEFORE = 60;
export const password = 'sesame-sesame';

const sharedLimits = (url: string) => ({
  RATE_LIMIT_BACKEND: 'shared',
  RATE_LIMIT_SHARED_URL: url,
  // A day, so that the window never moves during a test.
  RATE_LIMIT_INGEST_WINDOW_SECONDS: 86_400,
});

/** @param store a Redis with this password, which is stopped and replaced */
export function redisTests(chain: Chain, store: { redis: RedisServer }): void {
  /** Sends on new connections, so that every process gets some; ends after this many responses of any status. */
  async function sendMany(to: Chain['webhook'], answers: number): Promise<Sender> {
    const sender = startSender({ port: chain.weir.port, ...to, keepAlive: false, lanes: 8 });
    await until(() => sender.accepted.size + sender.refusals.length >= answers);
    await sender.stop();
    expect(sender.losses).toEqual([]);
    return sender;
  }

  const degraded = async (count: number) =>
    until(async () => (await chain.weir.metric('weir_rate_limit_degraded')) === count);

  /**
   * Sends twice the limit of a fresh webhook: its limit passes, whichever processes the requests meet. On a busy machine Redis may be
   * late; what passes uncounted then is in the metrics.
   */
  async function expectExactCount(): Promise<Chain['webhook']> {
    const limited = await chain.weir.addWebhook(LIMIT);
    const uncounted = () => chain.weir.metric('weir_requests_uncounted_total');
    const before = await uncounted();
    const { accepted, refusals, answeredBy } = await sendMany(limited, 2 * LIMIT);
    expect(answeredBy.size).toBe(2);
    expect(accepted.size).toBeGreaterThanOrEqual(LIMIT);
    await until(async () => accepted.size - ((await uncounted()) - before) <= LIMIT);
    expect(refusals.filter(({ status, code }) => status !== 429 || code !== 'rate_limited')).toEqual([]);
    return limited;
  }

  test('Redis killed under load: no request is refused, and readyz is degraded but ready', async () => {
    await chain.configure(sharedLimits(store.redis.url));
    const limited = await expectExactCount();
    const sender = await chain.startLoad();
    await store.redis.stop();
    await degraded(2);
    await sender.acceptMore(300);
    await sender.stop();
    expect(sender.refusals).toEqual([]);
    expect(sender.losses).toEqual([]);
    expect(await readiness(chain.weir.port)).toMatchObject({ status: 200, checks: { rate_limit_store: 'degraded' } });
    // A client over its limit is allowed as well.
    expect((await sendMany(limited, 20)).refusals).toEqual([]);
    await until(() => chain.events('rate_limit_store').length > 0);
    expect(chain.weir.lines.filter((line) => line.includes(password))).toEqual([]);
  });

  test('a process that exits during the outage is replaced by one that starts degraded', async () => {
    const [victim] = await chain.weir.servingPids();
    kill(victim!, 'SIGKILL');
    await until(async () => {
      const pids = await chain.weir.servingPids();
      return pids.length === 2 && !pids.includes(victim!);
    });
    await degraded(2);
    expect((await sendMany(chain.webhook, 50)).refusals).toEqual([]);
  });

  test('after recovery the processes count together again', async () => {
    // Stopped above, unless that test failed.
    await store.redis.stop();
    store.redis = await startRedis({ port: store.redis.port, password });
    await degraded(0);
    await expectExactCount();
  });

  test('counters survive a failover, a read-only replica fails open, and a flush starts at zero', async () => {
    const first = await ofTest(startRedis());
    const second = await ofTest(startRedis({ settings: ['--replicaof', '127.0.0.1', String(first.port)] }));
    await until(async () => (await second.cli('info', 'replication')).includes('master_link_status:up'));
    // One address, as a virtual address or HAProxy has it.
    const front = await Link.to(first.port);
    onTestFinished(() => front.close());
    await chain.configure(sharedLimits(`redis://127.0.0.1:${front.port}`));
    const { weir } = chain;
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
    const offset = async (redis: typeof first) =>
      (await redis.cli('info', 'replication')).match(/master_repl_offset:(\d+)/)![1];
    await until(async () => (await offset(first)) === (await offset(second)));

    // The address moves to the replica before it is promoted.
    await first.stop();
    front.target = second.port;
    front.reset();
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
