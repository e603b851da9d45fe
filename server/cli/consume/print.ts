/** Processes deliveries by printing each as one line of JSON. */
import { setImmediate as turn } from 'node:timers/promises';
import { CommandError, jsonLine } from '../../base/command/io.ts';
import { NotBegun } from '../../deliver/client/delivery.ts';
import type { Delivery, Handler } from '../../deliver/client/index.ts';

/** Resolves with null when the whole text was passed to the system, otherwise with the error. */
type Write = (text: string) => Promise<Error | null>;

/** Maximum time of consecutive writes before the event loop runs other work. */
const TURN_MS = 5;

/**
 * A delivery is done when its whole line was passed to the system. Those that wait for their turn when the handler should stop, or the output
 * is closed, were not begun: the handler throws NotBegun. Node writes to pipes synchronously; the breaks between
 * lines ensure that a slow reader delays signals and lease extensions by no more than one line.
 * @param breakOff called when standard output takes no more lines, so that every later delivery would fail in the same way
 */
export function printer(write: Write, breakOff: (error: CommandError) => void): Handler {
  let before: Promise<unknown> = Promise.resolve();
  let turnEndMs = 0;
  let isClosed = false;
  const print = async (delivery: Delivery, signal: AbortSignal, begin: () => void) => {
    if (performance.now() >= turnEndMs) {
      await turn();
      turnEndMs = performance.now() + TURN_MS;
    }
    if (isClosed || signal.aborted) throw new NotBegun();
    begin();
    const error: NodeJS.ErrnoException | null = await write(jsonLine(delivery));
    if (error === null) return;
    isClosed = true;
    const reason = `standard output is not writable: ${error.code ?? error.message}`;
    breakOff(new CommandError(`${reason}.`));
    throw new Error(reason);
  };
  return async (delivery, { signal }) => {
    let isBegun = false;
    const printed = before.then(() => print(delivery, signal, () => (isBegun = true)));
    before = printed.catch(() => {});
    await unless(signal, printed, () => (isBegun ? signal.reason : new NotBegun()));
  };
}

/** Waits for the promise; rejects with `error` when the signal aborts before. */
function unless(signal: AbortSignal, promise: Promise<void>, error: () => unknown): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(error());
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}
