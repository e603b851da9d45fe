/** Work on one delivery, whoever does it. */
import type { Delivery } from './delivery.ts';

/** How it ended. `broken`: this delivery failed, and every further one would in the same way. */
export type Verdict = { kind: 'done' } | { kind: 'failed'; reason: string } | { kind: 'broken'; reason: string };

export interface Work {
  /** Never rejects. */
  verdict: Promise<Verdict>;
  /** Asks it to end soon. */
  stop: () => void;
  /** Ends it at once. */
  kill: () => void;
}

export type Worker = (delivery: Delivery) => Work;
