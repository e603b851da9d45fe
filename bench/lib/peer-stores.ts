/** The stores of the contestants of `peers`, by queue. */
import type { QueueName } from '../peers/queues/open.ts';
import { type BenchDatabase, postgresPids, settledRows } from './database.ts';
import type { BenchRedis } from './redis.ts';
import type { Store } from './window.ts';

/** Tables that a queue writes; the first has a row for each job. */
const tables: Partial<Record<QueueName, readonly string[]>> = {
  insert: ['peer_events'],
  'graphile-worker': ['graphile_worker._private_jobs'],
  'graphile-worker, batches': ['graphile_worker._private_jobs'],
  'pg-boss': ['pgboss.job'],
};
const WEIR = ['events', 'deliveries'];

/** Where a queue stores its jobs. @param queue its name in Redis */
export function storeOf(name: QueueName, { database }: BenchDatabase, redis: BenchRedis | null, queue: string): Store {
  if (name === 'BullMQ') return redisStore(redis!, queue);
  const own = tables[name] ?? WEIR;
  return {
    pids: () => postgresPids(database),
    count: () => settledRows(database, own[0]!),
    empty: async () => {
      await database.query({ text: `truncate ${own.join(', ')}` });
      await database.query({ text: 'checkpoint' });
    },
  };
}

/** Prepares the tables of a filled queue for claims: statistics, and no write of the filling left. */
export async function settle(name: QueueName, { database }: BenchDatabase): Promise<void> {
  const [table] = tables[name] ?? [];
  if (table !== undefined) await database.query({ text: `vacuum analyze ${table}`, timeoutMs: SETTLE_MS });
  await database.query({ text: 'checkpoint', timeoutMs: SETTLE_MS });
}

const SETTLE_MS = 120_000;

function redisStore({ client, pid }: BenchRedis, queue: string): Store {
  return {
    pids: async () => [pid],
    count: async () => {
      for (let before = -1; ; ) {
        const now = await client.llen(`bull:${queue}:wait`);
        if (now === before) return now;
        before = now;
      }
    },
    empty: async () => void (await client.flushall()),
  };
}
