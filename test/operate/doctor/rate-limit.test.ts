import { describe, expect, onTestFinished, test } from 'vitest';
import { rateLimitChecks } from '../../../server/operate/doctor/network.ts';
import { freePort } from '../../helpers/ports.ts';
import { type RedisServer, startRedis, startRedisCluster } from '../../helpers/redis.ts';
import { settingsOf } from '../../helpers/settings.ts';
import { ofTest } from '../../helpers/shared.ts';

const look = (given: Record<string, string>) => rateLimitChecks.rate_limit({ settings: settingsOf(given) });
const shared = (RATE_LIMIT_SHARED_URL: string) => look({ RATE_LIMIT_BACKEND: 'shared', RATE_LIMIT_SHARED_URL });

describe('the doctor checks the rate-limit store', () => {
  test.each([
    ['one process, in its memory', '1', 'ok'],
    ['several processes, each in its own memory', '3', 'advice'],
  ])('%s', async (_, WORKERS, state) => {
    expect((await look({ WORKERS })).state).toBe(state);
  });

  test('a store that responds, without its password', async () => {
    const redis = await ofTest(startRedis({ password: 'geheim' }));
    const check = await shared(redis.url);
    expect(check).toEqual({
      state: 'ok',
      finding: `all processes share the counters of the store at 127.0.0.1:${redis.port}`,
      fix: null,
    });
  });

  test.each([
    ['has no limit', '0', 'noeviction', 'ok', /all processes share/],
    ['refuses counters when it is full, with room left', '1gb', 'noeviction', 'ok', /all processes share/],
    [
      'refuses counters when it is full, soon',
      'nearly full',
      'noeviction',
      'problem',
      /noeviction.* pass without a limit/,
    ],
    ['drops any counter', '1gb', 'allkeys-lru', 'advice', /allkeys-lru.*at their limit/],
    ['drops counters by use', '1gb', 'volatile-lru', 'advice', /volatile-lru.*at their limit/],
    ['drops those that end soonest, with room left', '1gb', 'volatile-ttl', 'ok', /all processes share/],
    ['drops those that end soonest, soon', 'nearly full', 'volatile-ttl', 'advice', /about to expire/],
  ])('a store that %s', async (_, maxmemory, policy, state, finding) => {
    const redis = await ofTest(startRedis());
    await redis.cli('config', 'set', 'maxmemory', await sized(redis, maxmemory));
    await redis.cli('config', 'set', 'maxmemory-policy', policy);
    const check = await shared(redis.url);
    expect([check.state, check.finding]).toEqual([state, expect.stringMatching(finding)]);
    if (state !== 'ok') expect(check.fix).toMatch(/volatile-ttl|raise maxmemory/);
  });

  test('a store that is full and evicts nothing', async () => {
    const redis = await ofTest(startRedis());
    await redis.cli('config', 'set', 'maxmemory', '1');
    const check = await shared(redis.url);
    expect(check).toMatchObject({
      state: 'problem',
      finding: expect.stringContaining('its memory is full'),
      fix: expect.stringContaining('raise maxmemory'),
    });
  });

  test('a cluster with one node that will refuse counters soon', async () => {
    const nodes = await startRedisCluster();
    onTestFinished(() => Promise.all(nodes.map((node) => node.stop())).then(() => {}));
    // Sent to the node with the slot of the key.
    const sizes = await Promise.all(nodes.map((node) => sized(node, 'nearly full')));
    for (const [index, node] of nodes.entries())
      if ((await node.cli('strlen', 'filler')) === '10000000')
        await node.cli('config', 'set', 'maxmemory', sizes[index]!);
    const check = await shared(nodes.map(({ url }) => url).join(','));
    expect(check).toMatchObject({ state: 'problem', finding: expect.stringContaining('noeviction') });
  });

  test('a store whose user cannot read its memory settings', async () => {
    const redis = await ofTest(startRedis());
    await redis.cli('config', 'set', 'maxmemory-policy', 'allkeys-lru');
    await redis.cli('config', 'set', 'maxmemory', '1gb');
    await redis.cli('acl', 'setuser', 'weir', 'on', '>geheim', '~*', '+@all', '-info');
    const url = redis.url.replace('//', '//weir:geheim@');
    expect((await shared(url)).state).toBe('ok');
  });

  test('a store that is unavailable', async () => {
    const url = `redis://:geheim@127.0.0.1:${await freePort()}`;
    const check = await look({ RATE_LIMIT_BACKEND: 'shared', RQ_SHARED_URL: url });
    expect(check.state).toBe('problem');
    expect(check.finding).toContain('ECONNREFUSED');
    expect(check.fix).toMatch(/^start it, correct the address/);
    expect(JSON.stringify(check)).not.toContain('geheim');
  });
});

/** `nearly full`: what the server uses, with 10 MB in it, is 90 % of its limit. */
async function sized(redis: RedisServer, maxmemory: string): Promise<string> {
  if (maxmemory !== 'nearly full') return maxmemory;
  await redis.cli('setrange', 'filler', '9999999', 'x');
  const used = /used_memory:(\d+)/.exec(await redis.cli('info', 'memory'))![1];
  return String(Math.ceil(Number(used) / 0.9));
}
