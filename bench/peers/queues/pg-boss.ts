/**
 * pg-boss in batches: without them a worker fetches one job and waits for its polling interval, half a second at least. A fetch that returned
 * a full batch is followed by the next at once (burstWhenBatchFull), and NOTIFY announces new jobs. A batch is completed as a whole.
 */
import { PgBoss } from 'pg-boss';
import { fillBy, type Queue, type QueueOrder } from './queue.ts';

const CONNECTIONS = 10;
const BATCH = 100;
const POLLING_SECONDS = 0.5;

/** Starts pg-boss and creates the queue. */
export async function openPgBoss({ database, queue }: QueueOrder): Promise<Queue> {
  const boss = new PgBoss({ ...database, max: CONNECTIONS, useListenNotify: true });
  boss.on('error', (error: Error) => {
    throw error;
  });
  await boss.start();
  await boss.createQueue(queue, { notify: true });
  return {
    add: (body) => boss.send(queue, { body }),
    fill: (count, body) =>
      fillBy(count, (jobs) =>
        boss.insert(
          queue,
          Array.from({ length: jobs }, () => ({ data: { body } })),
        ),
      ),
    consume: async (_concurrency, handle) => {
      const options = { batchSize: BATCH, burstWhenBatchFull: true, pollingIntervalSeconds: POLLING_SECONDS };
      await boss.work(queue, options, async (jobs: { id: string }[]) => {
        for (const { id } of jobs) handle(id);
      });
    },
  };
}
