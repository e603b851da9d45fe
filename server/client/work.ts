/** The work on one claimed delivery. */
import type { Delivery, Settlement } from './delivery.ts';
import { WeirError } from './errors.ts';
import type { Outcome } from './settle.ts';

export interface Work {
  delivery: Delivery;
  /** Its signal is the delivery's. */
  stop: AbortController;
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
export function settlementOf(outcome: Outcome): Settlement {
  if (outcome !== 'stopped') return outcome;
  throw new WeirError(
    'closed',
    'The agent stopped before the server answered, so the outcome is unknown.',
    'Expect the delivery again when its lease expires.',
  );
}
