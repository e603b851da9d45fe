/** One measured window: load on a running Weir, and the resources used. */
import { cpus } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { SenderCommand, SenderOrder, SenderReport } from '../../../workers/sender.ts';
import { builtFile } from '../../base/files/build.ts';
import { watchResident } from './child.ts';
import { type ProcessorTime, parts, readProcessor, timeBetween } from './processor.ts';

export const WARM_UP_SECONDS = 2;

export interface Window {
  /** One report per sender. */
  reports: readonly SenderReport[];
  /** Highest resident memory of any serving process. */
  residentBytes: number;
  /** Average number of cores used; others: every other program of the machine. */
  cores: { weir: number; postgres: number; senders: number; others: number };
  processor: ProcessorTime;
}

interface WindowOrder {
  load: SenderOrder;
  /** Sender threads, which share the connections. */
  senders: number;
  seconds: number;
  /** Ids of the serving processes. */
  weirPids: readonly number[];
  /** Called after the warm-up, when every database connection is open. */
  postgresPids: () => Promise<number[]>;
  /** Called once a second. */
  onSecond: () => void;
}

/** Resolves when every request has been answered. Rejects with AbortError when `stop` aborts. */
export async function measureWindow(order: WindowOrder, stop: AbortSignal): Promise<Window> {
  const senders = openSenders(shares(order.load, order.senders));
  const ticking = setInterval(order.onSecond, 1000);
  try {
    await delay(WARM_UP_SECONDS * 1000, undefined, { signal: stop });
    const postgresPids = await order.postgresPids();
    const snapshot = () => ({
      seconds: performance.now() / 1000,
      processor: readProcessor(order.weirPids, postgresPids),
      sendersUs: ownProcessorUs(),
      machineUs: machineUs(),
    });
    const before = snapshot();
    senders.measure();
    const { peakBytes } = await watchResident(order.weirPids, () =>
      delay(order.seconds * 1000, undefined, { signal: stop }),
    );
    const after = snapshot();
    const processor = timeBetween(before.processor, after.processor);
    const cores = (us: number) => us / 1e6 / (after.seconds - before.seconds);
    const measuredUs = parts.reduce((sum, part) => sum + processor[part], 0);
    const sendersUs = after.sendersUs - before.sendersUs;
    const othersUs = after.machineUs - before.machineUs - measuredUs - sendersUs;
    return {
      reports: await senders.stop(),
      residentBytes: peakBytes,
      cores: {
        weir: cores(measuredUs - processor.postgres),
        postgres: cores(processor.postgres),
        senders: cores(sendersUs),
        // The kernel counts in steps of 10 ms.
        others: cores(Math.max(0, othersUs)),
      },
      processor,
    };
  } finally {
    clearInterval(ticking);
    await senders.terminate();
  }
}

/** Processor time of this process with all its threads, in microseconds. */
function ownProcessorUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** Processor time of all programs, in microseconds. */
function machineUs(): number {
  return 1_000 * cpus().reduce((ms, { times }) => ms + times.user + times.nice + times.sys, 0);
}

function shares({ connections, ...order }: SenderOrder, senders: number): SenderOrder[] {
  return Array.from({ length: senders }, (_, index) => ({
    ...order,
    connections: Math.floor(connections / senders) + (index < connections % senders ? 1 : 0),
  }));
}

/** Starts a thread for each order, at the same time. */
export function openSenders(orders: readonly SenderOrder[]) {
  const threads = orders.map((workerData) => new Worker(builtFile('workers/sender.js'), { workerData }));
  const reports = Promise.all(
    threads.map(
      (thread) => new Promise<SenderReport>((resolve, reject) => thread.once('message', resolve).once('error', reject)),
    ),
  );
  // The promise is awaited when the window ends. Until then this handler prevents an unhandled rejection.
  reports.catch(() => {});
  const post = (command: SenderCommand) => {
    for (const thread of threads) thread.postMessage(command);
  };
  return {
    /** Starts the measured window; earlier requests count as warm-up. */
    measure: () => post('measure'),
    /** Ends the window; resolves when every request in flight has been answered. */
    stop: () => {
      post('stop');
      return reports;
    },
    terminate: () => Promise.all(threads.map((thread) => thread.terminate())),
  };
}
