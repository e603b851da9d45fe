/** Processes deliveries by printing each as one line of JSON. */
import { setImmediate as turn } from 'node:timers/promises';
import { jsonLine } from '../io.ts';
import type { Delivery, Worker, WorkOutcome } from './delivery.ts';

/** Resolves with null when the whole text was passed to the system, otherwise with the error. */
type Write = (text: string) => Promise<Error | null>;

/** Maximum time of consecutive writes before the event loop runs other work. */
const TURN_MS = 5;

/**
 * A delivery is done when its whole line was passed to the system. Node writes to pipes synchronously; the breaks between
 * lines ensure that a slow reader delays signals and lease extensions by no more than one line.
 */
export function printer(write: Write): Worker {
  let before: Promise<unknown> = Promise.resolve();
  let turnEndMs = 0;
  const print = async (delivery: Delivery) => {
    if (performance.now() >= turnEndMs) {
      await turn();
      turnEndMs = performance.now() + TURN_MS;
    }
    return verdictOf(await write(jsonLine(delivery)));
  };
  return (delivery) => {
    let end: (verdict: WorkOutcome) => void = () => {};
    const verdict = new Promise<WorkOutcome>((resolve) => {
      end = resolve;
    });
    let stopped = false;
    before = before.then(() => (stopped ? undefined : print(delivery).then(end)));
    const stop = () => {
      stopped = true;
      end({ kind: 'failed', reason: 'stopped before the line was written' });
    };
    return { verdict, stop, kill: stop };
  };
}

function verdictOf(error: Error | null): WorkOutcome {
  if (error === null) return { kind: 'done' };
  const code = (error as NodeJS.ErrnoException).code ?? error.message;
  return { kind: 'broken', reason: `standard output is not writable: ${code}` };
}
