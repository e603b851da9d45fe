/** Load generator: threads of this process, so that none of them outlives the process. */
import { Worker } from 'node:worker_threads';
import type { SenderCommand, SenderOrder, SenderReport } from '../../../workers/sender.ts';

interface Senders {
  /** Starts the measured window; earlier requests count as warm-up. */
  measure: () => void;
  /** Ends the window; resolves when every request in flight has been answered. */
  stop: () => Promise<SenderReport[]>;
  /** Terminates the threads at once. */
  terminate: () => Promise<unknown>;
}

/** Starts `senders` threads. They share the connections and start at the same time. */
export function openSenders(senders: number, { connections, ...order }: SenderOrder): Senders {
  const threads = Array.from({ length: senders }, (_, index) => {
    const share = Math.floor(connections / senders) + (index < connections % senders ? 1 : 0);
    const workerData: SenderOrder = { ...order, connections: share };
    return new Worker(new URL('../../../workers/sender.js', import.meta.url), { workerData });
  });
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
    measure: () => post('measure'),
    stop: () => {
      post('stop');
      return reports;
    },
    terminate: () => Promise.all(threads.map((thread) => thread.terminate())),
  };
}
