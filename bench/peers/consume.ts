/**
 * A consumer with an empty handler, as a process of its own. It answers each message of the bench.
 *
 * Arguments: a JSON document with `name` of the queue and `order`, its addresses.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type QueueName, queues } from './queues/open.ts';
import type { Queue, QueueOrder } from './queues/queue.ts';

/** What the bench asks for. */
export type ConsumerRequest =
  | { ask: 'fill'; count: number; body: string }
  | { ask: 'consume'; concurrency: number }
  | { ask: 'count' }
  | { ask: 'pace'; body: string; perSecond: number; seconds: number };

/** Jobs that were handled; and for `pace` the time from commit to handler of each job, in milliseconds. */
export interface ConsumerAnswer {
  handled: number;
  /** When the last job was handled, in milliseconds since 1970. */
  lastMs: number;
  latenciesMs?: number[];
}

/** How long the last job may take. */
const LAST_ONE_MS = 10_000;

const { name, order } = JSON.parse(process.argv[2]!) as { name: QueueName; order: QueueOrder };
const queue = (await queues[name](order)) as Queue;
const handledMs = new Map<string, number>();
let handled = 0;
let lastMs = 0;
let keepsTimes = false;

function handle(id: string): void {
  handled++;
  lastMs = Date.now();
  if (keepsTimes) handledMs.set(id, performance.now());
}

async function answer(request: ConsumerRequest): Promise<ConsumerAnswer> {
  if (request.ask === 'fill') await queue.fill(request.count, request.body);
  if (request.ask === 'consume') await queue.consume(request.concurrency, handle);
  const latencies = request.ask === 'pace' ? { latenciesMs: await pace(request) } : {};
  return { handled, lastMs, ...latencies };
}

/** Adds jobs at a constant rate. */
async function pace({ body, perSecond, seconds }: Extract<ConsumerRequest, { ask: 'pace' }>): Promise<number[]> {
  keepsTimes = true;
  const committed: Promise<{ id: string; atMs: number }>[] = [];
  const startMs = performance.now();
  while (committed.length < perSecond * seconds) {
    const due = Math.floor(((performance.now() - startMs) / 1_000) * perSecond) + 1;
    while (committed.length < due) committed.push(queue.add(body).then((id) => ({ id, atMs: performance.now() })));
    await delay(1);
  }
  const jobs = await Promise.all(committed);
  const untilMs = performance.now() + LAST_ONE_MS;
  while (!jobs.every(({ id }) => handledMs.has(id))) {
    if (performance.now() > untilMs) throw new Error(`${name}: not every job was handled`);
    await delay(20);
  }
  keepsTimes = false;
  return jobs.map(({ id, atMs }) => handledMs.get(id)! - atMs);
}

process.on('disconnect', () => process.exit());
process.on('message', async (request: ConsumerRequest) => process.send!(await answer(request)));
process.send!('ready');
