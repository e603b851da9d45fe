/** Works on deliveries by printing them: one line of JSON each. */
import { setImmediate as turn } from 'node:timers/promises';
import { jsonLine } from '../io.ts';
import type { Delivery } from './delivery.ts';
import type { Verdict, Worker } from './work.ts';

/** Resolves when the text was handed to the system whole, or with why it cannot be. */
type Write = (text: string) => Promise<Error | null>;

/** Lines are written for so long before everything else has its turn. */
const TURN_MS = 5;

/**
 * A delivery is done when its line was handed to the system whole. Node writes to pipes synchronously: a slow reader must not
 * keep signals and the extension of leases waiting longer than one line takes, hence the turns in between.
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
    let end: (verdict: Verdict) => void = () => {};
    const verdict = new Promise<Verdict>((resolve) => {
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

function verdictOf(error: Error | null): Verdict {
  if (error === null) return { kind: 'done' };
  const code = (error as NodeJS.ErrnoException).code ?? error.message;
  return { kind: 'broken', reason: `standard output cannot be written to: ${code}` };
}
