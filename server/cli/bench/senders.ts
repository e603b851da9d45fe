/** The load: threads of this process, so that nothing of it is left however the process ends. */
import { Worker } from 'node:worker_threads';
import type { SenderCommand, SenderOrder, SenderReport } from '../../../workers/sender.ts';

interface Senders {
  /** Opens the window that is measured; what was sent before was warm-up. */
  measure: () => void;
  /** Closes the window; resolves when everything under way has its answer. */
  stop: () => Promise<SenderReport[]>;
  /** Ends the threads, whatever they do. */
  terminate: () => Promise<unknown>;
}

/** Starts `senders` threads, which share the connections and begin at once. */
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
  // It is awaited when the window closes; a thread that fails before waits to be told then.
  reports.catch(() => {});
  const tell = (command: SenderCommand) => {
    for (const thread of threads) thread.postMessage(command);
  };
  return {
    measure: () => tell('measure'),
    stop: () => {
      tell('stop');
      return reports;
    },
    terminate: () => Promise.all(threads.map((thread) => thread.terminate())),
  };
}
