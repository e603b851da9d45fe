/** All queues by name. A process loads only the packages of its own. */
import type { Queue, QueueOrder } from './queue.ts';

export const queues = {
  insert: async (order: QueueOrder) => (await import('./insert.ts')).openInsert(order),
  'graphile-worker': async (order: QueueOrder) =>
    (await import('./graphile-worker.ts')).openGraphileWorker(order, { batches: false }),
  'graphile-worker, batches': async (order: QueueOrder) =>
    (await import('./graphile-worker.ts')).openGraphileWorker(order, { batches: true }),
  'pg-boss': async (order: QueueOrder) => (await import('./pg-boss.ts')).openPgBoss(order),
  BullMQ: async (order: QueueOrder) => (await import('./bullmq.ts')).openBullMq(order),
  'agent.run': async ({ weir }: QueueOrder) => (await import('./weir.ts')).openWeirQueue(weir, 'library'),
  'plain HTTP': async ({ weir }: QueueOrder) => (await import('./weir.ts')).openWeirQueue(weir, 'http'),
  MCP: async ({ weir }: QueueOrder) => (await import('./weir.ts')).openWeirQueue(weir, 'mcp'),
} satisfies Record<string, (order: QueueOrder) => Promise<Partial<Queue>>>;

export type QueueName = keyof typeof queues;
