/**
 * graphile-worker, by itself and with the settings that its page on performance measures: a local queue of 500, completions in batches.
 * A connection for each concurrent job, and two, up to CONNECTIONS_MAX: four consumers share a server with the default of 100 connections.
 */
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { fillBy, type Queue, type QueueOrder } from './queue.ts';

const CONNECTIONS_MIN = 10;
const CONNECTIONS_MAX = 20;
const LOCAL_QUEUE = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

/** Migrates the schema and opens the queue. @param options.batches with the settings of the page on performance */
export async function openGraphileWorker(
  { database, queue: task }: QueueOrder,
  { batches }: { batches: boolean },
): Promise<Queue> {
  const { host, port, user, database: name } = database;
  const connectionString = `postgres://${user}@localhost/${name}?host=${encodeURIComponent(String(host))}&port=${port}`;
  const logger = new Logger(() => () => {});
  const worker = { connectionString, logger, maxPoolSize: CONNECTIONS_MIN };
  const utils = await makeWorkerUtils({ preset: { worker } });
  await utils.migrate();
  return {
    add: async (body) => String((await utils.addJob(task, { body })).id),
    fill: (count, body) =>
      fillBy(count, (jobs) =>
        utils.addJobs(Array.from({ length: jobs }, () => ({ identifier: task, payload: { body } }))),
      ),
    consume: async (concurrentJobs, handle) => {
      const maxPoolSize = Math.min(CONNECTIONS_MAX, Math.max(CONNECTIONS_MIN, concurrentJobs + 2));
      const settings = { ...worker, concurrentJobs, maxPoolSize, ...(batches ? LOCAL_QUEUE : {}) };
      const taskList = {
        [task]: (_payload: unknown, { job }: { job: { id: string } }) => handle(String(job.id)),
      };
      await run({ preset: { worker: settings }, taskList });
    },
  };
}
