/** One Weir whose Postgres, Redis, alert receiver and keys are elsewhere: it survives the loss of each, and of its DATA_DIR. */
import { afterAll, beforeAll } from 'vitest';
import { chainOf } from '../helpers/chain.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { type RedisServer, startRedis } from '../helpers/redis.ts';
import { password, redisTests } from './outside/redis.ts';
import { alertTests, dataDirTests, firstKey, keyTests } from './outside/state.ts';

const store = {} as { redis: RedisServer };
let fresh: FreshDatabase;
beforeAll(async () => {
  store.redis = await startRedis({ password });
});
// Runs after the hook of the chain, which stops Weir.
afterAll(async () => {
  await store.redis.stop();
  await fresh.drop();
});

const chain = chainOf(async () => {
  fresh = await freshDatabase();
  return { environment: { DATABASE_URL: fresh.conninfo, SECRETS_KEY: firstKey } };
});

alertTests(chain);
redisTests(chain, store);
keyTests(chain);
dataDirTests(chain);
