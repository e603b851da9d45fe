/** Deliveries as an asynchronous iterator, on top of a run. */
import type { Delivery } from './delivery.ts';
import { NotBegun } from './errors.ts';
import type { CompleteOptions, RunCounts } from './options.ts';
import { type Deferred, deferred } from './work.ts';

type StartRun = (
  options: CompleteOptions,
  handler: (delivery: Delivery, settled: Promise<void>) => Promise<void>,
) => Promise<RunCounts>;

/**
 * Yields each claimed delivery once. Ends when the options' signal aborts or a limit is reached; deliveries that were not yielded are
 * released at once. When the consumer leaves the loop, deliveries that it did not settle are returned as failed.
 */
export async function* eachDelivery(
  start: StartRun,
  options: CompleteOptions,
): AsyncGenerator<Delivery, void, undefined> {
  const stop = new AbortController();
  /** Claimed, and not yet yielded. Resolving the second part releases the delivery. */
  const ready: [Delivery, Deferred][] = [];
  const yielded = new Set<Delivery>();
  let changed = deferred();
  let ended = false;
  const onStop = () => {
    stop.abort();
    for (const [, unwanted] of ready.splice(0)) unwanted.resolve();
    changed.resolve();
  };
  const run = start({ ...options, signal: stop.signal }, async (delivery, settled) => {
    const unwanted = deferred();
    ready.push([delivery, unwanted]);
    changed.resolve();
    await Promise.race([
      settled,
      aborted(delivery.signal),
      unwanted.promise.then(() => Promise.reject(new NotBegun())),
    ]);
    yielded.delete(delivery);
    delivery.signal.throwIfAborted();
  }).finally(() => {
    ended = true;
    changed.resolve();
  });
  // A rejection before the consumer asks for more is reported by the await below.
  run.catch(() => {});
  options.signal?.addEventListener('abort', onStop);
  if (options.signal?.aborted) onStop();
  try {
    while (!ended) {
      const [delivery] = ready.shift() ?? [];
      if (delivery === undefined) {
        await changed.promise;
        changed = deferred();
      } else if (!delivery.signal.aborted) {
        yielded.add(delivery);
        yield delivery;
      }
    }
  } finally {
    options.signal?.removeEventListener('abort', onStop);
    onStop();
    for (const delivery of yielded)
      delivery.nack('the loop over the deliveries ended before this one was settled').catch(() => {});
    await run;
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
