import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import { BUDGET_MS } from '../../../server/base/ratelimit/breaker.ts';
import type { Decision, Policy, RateLimiter } from '../../../server/base/ratelimit/limiter.ts';
import { connectSharedLimiter, SharedStoreError } from '../../../server/base/ratelimit/shared.ts';
import { decide } from '../../../server/base/ratelimit/window.ts';
import { freePort } from '../../helpers/ports.ts';
import { type RedisServer, startRedis, startRedisCluster } from '../../helpers/redis.ts';
import { until } from '../../helpers/wait.ts';

const ingest: Policy = { name: 'ingest', max: 5, windowSeconds: 3600 };
const roomy: Policy = { name: 'ingest', max: 1_000_000, windowSeconds: 3600 };

const undo: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

/** Until an outage is over. */
const CALM_MS = 100;

async function redis(options?: Parameters<typeof startRedis>[0]): Promise<RedisServer> {
  const server = await startRedis(options);
  undo.push(server.stop);
  return server;
}

async function limiter(urls: string[], { requireAtStart = true, now = realClock } = {}) {
  const reports: { reason: string }[] = [];
  const uncounted: string[] = [];
  const shared = await connectSharedLimiter({
    urls,
    requireAtStart,
    now,
    report: { began: (start) => reports.push(start), ended: (end) => reports.push(end) },
    calmMs: CALM_MS,
    onUncounted: ({ name }) => uncounted.push(name),
  });
  undo.push(() => shared.close());
  return { shared, reports, uncounted };
}

/** Its clock is fixed until it is set: on a machine too busy to respond within the budget it still counts. */
async function patientLimiter(urls: string[], { requireAtStart = true } = {}) {
  let now = () => 0;
  const setClock = (next: () => number) => {
    now = next;
  };
  return { ...(await limiter(urls, { requireAtStart, now: () => now() })), setClock };
}

const realClock = () => performance.now();

async function takes(target: RateLimiter, key: string, count: number, policy = ingest): Promise<Decision[]> {
  return Promise.all(Array.from({ length: count }, () => target.take(key, policy)));
}

const allowed = (decisions: Decision[]) => decisions.filter((decision) => decision.allowed).length;

describe('counting in Redis', () => {
  test('two limiters count together', async () => {
    const { url } = await redis();
    const [one, two] = [await patientLimiter([url]), await patientLimiter([url])];
    const answers = [];
    for (let turn = 0; turn < 4; turn += 1)
      answers.push(await one.shared.take('a', ingest), await two.shared.take('a', ingest));
    expect(answers.map((answer) => answer.allowed)).toEqual([true, true, true, true, true, false, false, false]);
    expect(answers.map((answer) => answer.remaining)).toEqual([4, 3, 2, 1, 0, 0, 0, 0]);
    expect((await two.shared.take('b', ingest)).remaining).toBe(4);
  });

  test('twenty thousand concurrent calls of one client are two commands to the store, and the quota is exact', async () => {
    const server = await redis();
    const { shared, reports } = await patientLimiter([server.url]);
    await server.cli('config', 'resetstat');
    const answers = await takes(shared, 'a', 20_000, { ...ingest, max: 600 });
    expect(allowed(answers)).toBe(600);
    expect(answers.slice(0, 601).map(({ remaining }) => remaining)).toEqual(
      [...Array(600).keys(), 0].sort((a, b) => b - a),
    );
    expect(await server.cli('info', 'commandstats')).toMatch(/cmdstat_evalsha:calls=2,/);
    expect(reports).toEqual([]);
  });

  test('a refusal is cached, so that a blocked client causes no command, for this limit only', async () => {
    const server = await redis();
    const { shared } = await patientLimiter([server.url]);
    const refused = (await takes(shared, 'a', 6)).at(-1)!;
    expect(refused.allowed).toBe(false);
    await server.cli('config', 'resetstat');
    expect(allowed(await takes(shared, 'a', 1000))).toBe(0);
    expect(await server.cli('info', 'commandstats')).not.toContain('evalsha');
    expect((await shared.take('a', { ...ingest, max: 7 })).remaining).toBe(1);
  });

  test('refused requests are not counted and do not extend the counter', async () => {
    const server = await redis();
    const { shared } = await patientLimiter([server.url]);
    await takes(shared, 'a', 5);
    const key = 'weir:limit:{a}:3600';
    const [stored, expiresAt] = [await server.cli('get', key), await server.cli('pexpiretime', key)];
    expect(allowed(await takes(shared, 'a', 100))).toBe(0);
    expect(await server.cli('get', key)).toBe(stored);
    expect(Math.abs(Number(await server.cli('pexpiretime', key)) - Number(expiresAt))).toBe(0);
    expect(stored).toMatch(/ 0 5$/);
  });

  test('the script decides like base/ratelimit/window.ts, for any state of the counter', async () => {
    const server = await redis();
    const { shared } = await patientLimiter([server.url]);
    const windowMs = ingest.windowSeconds * 1000;
    const clock = async () => {
      const [seconds, micros] = (await server.cli('time')).split('\n').map(Number) as [number, number];
      const nowMs = seconds * 1000 + Math.floor(micros / 1000);
      const bucket = Math.floor(nowMs / windowMs);
      return { bucket, elapsedMs: nowMs - bucket * windowMs };
    };
    const check = async (previous: number, current: number, tries = 0): Promise<void> => {
      // A key of its own: the limiter remembers refusals.
      const key = `${previous}-${current}-${tries}`;
      const pureAt = ({ elapsedMs }: { elapsedMs: number }) => {
        const { allowed, remaining } = decide(previous, current, elapsedMs, ingest);
        return { allowed, remaining };
      };
      const before = await clock();
      await server.cli('set', `weir:limit:{${key}}:3600`, `${before.bucket} ${previous} ${current}`);
      const { allowed, remaining } = await shared.take(key, ingest);
      const after = await clock();
      const pure = pureAt(before);
      // The script read its clock between the two. Where time alone changes the decision in between, the state is checked again.
      if (after.bucket !== before.bucket || !isDeepStrictEqual(pure, pureAt(after)))
        return check(previous, current, tries + 1);
      expect({ key, allowed, remaining }).toEqual({ key, ...pure });
      const stored = await server.cli('get', `weir:limit:{${key}}:3600`);
      expect(stored).toBe(`${before.bucket} ${previous} ${current + (pure.allowed ? 1 : 0)}`);
    };
    for (let previous = 0; previous <= 5; previous += 1)
      for (let current = 0; current <= 5; current += 1) await check(previous, current);
  });

  test('a store that loses scripts and counters recovers without a report', async () => {
    const server = await redis();
    const { shared, reports } = await patientLimiter([server.url]);
    await takes(shared, 'a', 5);
    await server.cli('script', 'flush');
    await server.cli('flushall');
    expect(allowed(await takes(shared, 'a', 50))).toBe(5);
    expect(reports).toEqual([]);
  });

  test('a password with special characters works', async () => {
    const { url } = await redis({ password: 'p@ss/word: 1?' });
    const { shared } = await patientLimiter([url]);
    expect(allowed(await takes(shared, 'a', 9))).toBe(5);
  });
});

describe('an unavailable store', () => {
  test('that hangs: one budget for all waiting calls, no wait for later ones, two reports, and recovery', async () => {
    const server = await redis();
    const { shared, reports, setClock, uncounted } = await patientLimiter([server.url]);
    await takes(shared, 'a', 5);
    server.pause();

    const waiting = takes(shared, 'a', 100);
    setClock(() => BUDGET_MS - 1);
    await delay(3 * BUDGET_MS);
    expect(shared.health()).toBe('ok');
    // A second budget would never end.
    setClock(() => BUDGET_MS);
    const first = await waiting;
    expect(allowed(first)).toBe(100);
    expect(first[0]).toEqual({ allowed: true, remaining: 5, resetSeconds: 1 });
    expect(shared.health()).toBe('degraded');
    const openedMs = performance.now();
    setClock(() => BUDGET_MS + performance.now() - openedMs);

    // A decision that is returned directly, without a promise, waits for nothing.
    const later = Array.from({ length: 10_000 }, () => shared.take('a', ingest));
    expect(later.filter((answer) => answer instanceof Promise || !answer.allowed)).toEqual([]);

    const startMs = performance.now();
    let promised = 0;
    await until(() => {
      if (shared.take('a', ingest) instanceof Promise) promised += 1;
      return performance.now() - startMs > 3200; // After the timeout of the socket, the connection is given up as well.
    });
    expect(promised).toBe(0);
    expect(reports).toEqual([{ reason: 'no response within 50 ms' }]);
    expect(uncounted.length).toBeGreaterThan(10_100);
    expect(new Set(uncounted)).toEqual(new Set(['ingest']));

    server.resume();
    await until(() => shared.health() === 'ok');
    const closedMs = performance.now();
    setClock(() => BUDGET_MS + closedMs - openedMs);
    expect((await shared.take('a', ingest)).allowed).toBe(false);
    setClock(() => BUDGET_MS + performance.now() - openedMs);
    await until(() => reports.length === 2);
    expect(reports[1]).toMatchObject({ interruptions: 1, allowed_uncounted: uncounted.length });
  });

  test('that hangs for a moment counts again on the same connection', async () => {
    const server = await redis();
    const { shared, setClock } = await patientLimiter([server.url]);
    server.pause();
    const waiting = shared.take('a', roomy);
    setClock(() => BUDGET_MS);
    await waiting;
    expect(shared.health()).toBe('degraded');
    server.resume();
    await until(() => shared.health() === 'ok');
    expect((await shared.take('a', roomy)).remaining).toBeLessThan(roomy.max);
    expect(await server.cli('info', 'stats')).toMatch(/rejected_connections:0/);
  });

  test('that is stopped and started again fails open, and then counts again', async () => {
    const server = await redis();
    const { shared, setClock, reports } = await patientLimiter([server.url]);
    await takes(shared, 'a', 5);
    expect(allowed(await takes(shared, 'refused', 6))).toBe(5);
    await server.stop();
    // Before any call.
    await until(() => shared.health() === 'degraded');
    expect(reports).toEqual([]);
    const waiting = Promise.all([takes(shared, 'a', 100), takes(shared, 'refused', 10)]);
    setClock(() => BUDGET_MS);
    expect((await waiting).map(allowed)).toEqual([100, 10]);
    await until(() => reports.length > 0);
    expect(shared.health()).toBe('degraded');
    await redis({ port: server.port });
    await until(() => shared.health() === 'ok');
    expect(allowed(await takes(shared, 'a', 9))).toBe(5);
  });

  test('that becomes a read-only replica fails open, and counts again once it accepts writes', async () => {
    const server = await redis({ settings: ['--replica-serve-stale-data', 'yes'] });
    const { shared, reports } = await patientLimiter([server.url]);
    await server.cli('replicaof', '127.0.0.1', String(await freePort()));
    expect((await shared.take('a', ingest)).remaining).toBe(5);
    expect(shared.health()).toBe('degraded');
    expect(reports).toEqual([{ reason: 'it is a read-only replica (READONLY)' }]);
    await server.cli('replicaof', 'no', 'one');
    await until(() => shared.health() === 'ok');
    expect((await shared.take('a', ingest)).remaining).toBe(4);
  });

  test('a call after close is allowed, and one in progress gets its result', async () => {
    const server = await redis();
    const { shared, reports } = await limiter([server.url]);
    server.pause();
    const underWay = shared.take('a', ingest);
    await shared.close();
    expect((await underWay).allowed).toBe(true);
    expect((await shared.take('a', ingest)).allowed).toBe(true);
    expect(reports).toEqual([]);
  });
});

describe('opening the shared store at the start', () => {
  const secret = 'hush-hush-hush';
  const bad: [string, () => Promise<string>, RegExp][] = [
    ['nothing listens', async () => `127.0.0.1:${await freePort()}`, /nothing listens there \(ECONNREFUSED\)/],
    ['the password is wrong', async () => `127.0.0.1:${(await redis({ password: 'another' })).port}`, /WRONGPASS/],
    [
      'it hangs',
      async () => {
        const server = await redis();
        server.pause();
        return `127.0.0.1:${server.port}`;
      },
      /no response within 2000 ms|there is no connection/,
    ],
  ];
  test.each(bad)('is refused when %s, with a sentence that is free of secrets', async (_, place, cause) => {
    const at = await place();
    const url = `redis://operator:${secret}@${at}/0?key=${secret}`;
    const error = await limiter([url]).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SharedStoreError);
    const { message, stack } = error as Error;
    expect(message).toContain('RATE_LIMIT_SHARED_URL');
    expect(message).toContain(at);
    expect(message).toMatch(cause);
    expect(`${message}${stack}`).not.toMatch(/hush|operator/);
  });

  test('is refused for a plain server at a rediss:// address', async () => {
    const { port } = await redis();
    await expect(limiter([`rediss://127.0.0.1:${port}`])).rejects.toThrow(SharedStoreError);
  });

  test('without requireAtStart succeeds degraded, and counting begins once the store is available', async () => {
    const port = await freePort();
    const url = `redis://:${secret}@127.0.0.1:${port}`;
    const { shared, reports } = await patientLimiter([url], { requireAtStart: false });
    expect(shared.health()).toBe('degraded');
    expect(shared.take('a', ingest)).toEqual({ allowed: true, remaining: 5, resetSeconds: 1 });
    expect(reports).toEqual([{ reason: 'nothing listens there (ECONNREFUSED)' }]);
    await redis({ port, password: secret });
    await until(() => shared.health() === 'ok');
    expect(allowed(await takes(shared, 'a', 9))).toBe(5);
    expect(JSON.stringify(reports)).not.toContain(secret);
  });
});

describe('a Redis Cluster', () => {
  test('counts over all its nodes, and works while one hangs for a while', async () => {
    const nodes = await startRedisCluster();
    undo.push(...nodes.map((node) => node.stop));
    const { shared, reports, setClock } = await patientLimiter(nodes.map((node) => node.url));
    const keys = Array.from({ length: 60 }, (_, index) => `ingest:192.0.2.${index}`);
    const counts = await Promise.all(keys.map(async (key) => allowed(await takes(shared, key, 8))));
    expect(counts).toEqual(keys.map(() => 5));
    const sizes = await Promise.all(nodes.map((node) => node.cli('dbsize')));
    for (const size of sizes) expect(Number(size)).toBeGreaterThan(5);
    expect(reports).toEqual([]);

    nodes[1]!.pause();
    const waiting = Promise.all(keys.map((key) => shared.take(key, roomy)));
    setClock(() => BUDGET_MS);
    expect(allowed(await waiting)).toBe(60);
    expect(shared.health()).toBe('degraded');
    setClock(realClock);
    nodes[1]!.resume();
    await until(() => shared.health() === 'ok');
    await until(async () => {
      const answers = await Promise.all(keys.map((key) => shared.take(key, roomy)));
      return answers.every(({ remaining }) => remaining < roomy.max);
    });
  });

  test('that is unavailable refuses the start, naming every node', async () => {
    const ports = [await freePort(), await freePort()];
    const starting = limiter(ports.map((port) => `redis://:secret@127.0.0.1:${port}`));
    await expect(starting).rejects.toThrow(
      new RegExp(`127.0.0.1:${ports[0]}, 127.0.0.1:${ports[1]} cannot be used: there is no connection`),
    );
  });

  test('with only one address refuses the start, and so do two servers without a cluster', async () => {
    const nodes = await startRedisCluster();
    undo.push(...nodes.map((node) => node.stop));
    await expect(limiter([nodes[0]!.url])).rejects.toThrow(/give the addresses of several/);
    const apart = [await redis(), await redis()];
    await expect(limiter(apart.map((server) => server.url))).rejects.toThrow(/several addresses must be nodes/);
  });
});
