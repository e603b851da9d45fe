/** BullMQ on a Redis that flushes each write (appendfsync always). Completed jobs are removed, as its guide for production recommends. */
import { Queue as Jobs, Worker } from 'bullmq';
import { fillBy, type Queue, type QueueOrder } from './queue.ts';

const OPTIONS = { removeOnComplete: true, removeOnFail: true };

/** Connects to Redis and opens the queue. */
export async function openBullMq({ redisPort, queue }: QueueOrder): Promise<Queue> {
  const connection = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null };
  const jobs = new Jobs(queue, { connection, defaultJobOptions: OPTIONS });
  await jobs.waitUntilReady();
  return {
    add: async (body) => String((await jobs.add('job', { body })).id),
    fill: (count, body) =>
      fillBy(count, (some) => jobs.addBulk(Array.from({ length: some }, () => ({ name: 'job', data: { body } })))),
    consume: async (concurrency, handle) => {
      const worker = new Worker(queue, async ({ id }: { id: string }) => handle(String(id)), {
        connection,
        concurrency,
      });
      worker.on('error', (error: Error) => {
        throw error;
      });
      await worker.waitUntilReady();
    },
  };
}
