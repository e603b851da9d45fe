/** The work on one delivery. */
import type { Delivery } from './delivery.ts';

/** Result of the work. `broken`: this delivery failed, and all others would fail in the same way. */
export type WorkOutcome = { kind: 'done' } | { kind: 'failed'; reason: string } | { kind: 'broken'; reason: string };

export interface Work {
  /** Never rejects. */
  verdict: Promise<WorkOutcome>;
  /** Asks the work to stop soon. */
  stop: () => void;
  /** Stops the work at once. */
  kill: () => void;
}

export type Worker = (delivery: Delivery) => Work;
