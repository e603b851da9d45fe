import { describe, expect, onTestFinished, test } from 'vitest';
import { checkRateLimit } from '../../server/doctor/rate-limit.ts';
import { freePort } from '../helpers/ports.ts';
import { startRedis } from '../helpers/redis.ts';
import { settingsOf } from '../helpers/settings.ts';

describe('the doctor looks at where requests are counted', () => {
  test.each([
    ['one process, in its memory', '1', 'ok'],
    ['several processes, each in its own memory', '3', 'advice'],
  ])('%s', async (_, WORKERS, state) => {
    expect((await checkRateLimit(settingsOf({ WORKERS }))).state).toBe(state);
  });

  test('a store that answers, whose password stays unsaid', async () => {
    const redis = await startRedis({ password: 'geheim' });
    onTestFinished(() => redis.stop());
    const check = await checkRateLimit(settingsOf({ RATE_LIMIT_BACKEND: 'shared', RATE_LIMIT_SHARED_URL: redis.url }));
    expect(check).toEqual({
      name: 'rate_limit',
      state: 'ok',
      finding: `the store at 127.0.0.1:${redis.port} counts for all processes`,
      mend: null,
    });
  });

  test('a store that is away', async () => {
    const url = `redis://:geheim@127.0.0.1:${await freePort()}`;
    const check = await checkRateLimit(settingsOf({ RATE_LIMIT_BACKEND: 'shared', RQ_SHARED_URL: url }));
    expect(check.state).toBe('problem');
    expect(check.finding).toContain('ECONNREFUSED');
    expect(check.mend).toMatch(/^Start it, correct the address/);
    expect(JSON.stringify(check)).not.toContain('geheim');
  });
});
