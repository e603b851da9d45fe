/** The work on one claimed delivery. */
import { setMaxListeners } from 'node:events';
import { type ClaimedDelivery, Delivery, type Settlement } from './delivery.ts';
import { reasonOf, WeirError } from './errors.ts';
import type { Outcome, Verdict } from './settle.ts';

export interface Work {
  delivery: Delivery;
  /** Its signal is `delivery.signal`. */
  stop: Stop;
  /** The server reported that the lease is lost. */
  lost: boolean;
  /** The handler was asked to stop, because a drain ended or the agent was closed. */
  cutShort: boolean;
  /** The first settlement; null before it. */
  settling: Promise<Outcome> | null;
  settled: Deferred;
  /** Resolves when the handler is no longer waited for. */
  abandoned: Deferred;
}

/**
 * @param settle called for each settlement by the delivery's own methods
 * @param extend extends the lease to so many seconds from now
 */
export function openWork(
  claimed: ClaimedDelivery,
  settle: (verdict: Verdict) => Promise<Outcome>,
  extend: (seconds: number) => Promise<Outcome>,
): Work {
  const stop = new Stop();
  const delivery = new Delivery(claimed, stop, {
    ack: async () => settlementOf(await settle({ kind: 'done' })),
    nack: async (reason, delaySeconds) =>
      settlementOf(await settle({ kind: 'failed', reason: reasonOf(reason), delaySeconds })),
    extend: async (seconds) => settlementOf(await extend(seconds)),
  });
  return {
    delivery,
    stop,
    lost: false,
    cutShort: false,
    settling: null,
    settled: deferred(),
    abandoned: deferred(),
  };
}

/** An AbortController that is created when its signal is first read: most handlers never do, and it costs a third of the work on a delivery. */
class Stop {
  #controller: AbortController | null = null;
  /** Reason of an abort before the signal was read. */
  #aborted: { reason: unknown } | null = null;

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      setMaxListeners(0, this.#controller.signal);
      if (this.#aborted !== null) this.#controller.abort(this.#aborted.reason);
    }
    return this.#controller.signal;
  }

  /** The first reason counts. */
  abort(reason: unknown): void {
    this.#aborted ??= { reason };
    this.#controller?.abort(reason);
  }
}

export interface Deferred {
  promise: Promise<void>;
  resolve: () => void;
}

/** A promise and its resolve function. Promise.withResolvers needs Node 22. */
export function deferred(): Deferred {
  let resolve = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** Throws WeirError `closed` when the outcome is unknown. */
function settlementOf(outcome: Outcome): Settlement {
  if (outcome !== 'stopped') return outcome;
  throw new WeirError(
    'closed',
    'The agent stopped before the server answered, so the outcome is unknown.',
    'Expect the delivery again when its lease expires.',
  );
}
