/** Options and counts of a run, and what an agent reports. */
import type { DeliveredEvent, Delivery } from './delivery.ts';

export interface RunOptions {
  /** Starts a drain: no more claims; running handlers may finish for `drainSeconds`, and their deliveries are settled. */
  signal?: AbortSignal | undefined;
  /** Maximum number of deliveries worked on at a time: 1 to 1,000, by default 1. Up to 300 more are claimed while handlers are fast. */
  concurrency?: number;
  /** Length of a lease, extended while the work continues: 5 to 3,600, by default 60. A killed agent's deliveries come again after it. */
  leaseSeconds?: number;
  /** Maximum time that a claim waits at the server for a delivery: 0 to 30, by default 20. */
  waitSeconds?: number;
  /** Claim only deliveries of these webhooks; by default of each webhook to which the agent is subscribed. */
  webhookIds?: readonly string[] | undefined;
  /** Which events are worked on; the deliveries of the others are acknowledged. A filter of the subscription also saves their transfer. */
  filter?: (event: DeliveredEvent) => boolean;
  /** End when this many deliveries are settled: 1 or more, by default without end. */
  max?: number;
  /** End when the deliveries of one claim are settled. */
  once?: boolean;
  /** After `signal`: seconds after which `delivery.signal` aborts and the delivery is returned. By default 30. */
  drainSeconds?: number;
  /** Updated while the agent runs, for a progress display. */
  counts?: RunCounts;
}

export interface RunCounts {
  /** Without those that were released before their work began. */
  claimed: number;
  /** Acknowledged. */
  done: number;
  /** Returned: delivered again, or moved to the dead letters. */
  failed: number;
  /** Leases lost before the delivery was settled; these deliveries come again. So do claimed deliveries that are in no other count. */
  gone: number;
}

export type CompleteOptions = Required<RunOptions>;

const ranges = {
  concurrency: [1, 1_000],
  leaseSeconds: [5, 3_600],
  waitSeconds: [0, 30],
  drainSeconds: [0, 86_400],
} as const;

/** Adds the defaults, also for members that are undefined. Throws RangeError when a number is outside of its range. */
export function completeOptions({
  concurrency = 1,
  leaseSeconds = 60,
  waitSeconds = 20,
  drainSeconds = 30,
  max = Number.POSITIVE_INFINITY,
  once = false,
  filter = () => true,
  counts = { claimed: 0, done: 0, failed: 0, gone: 0 },
  signal,
  webhookIds,
}: RunOptions): CompleteOptions {
  const bounded = { concurrency, leaseSeconds, waitSeconds, drainSeconds };
  for (const [name, [min, most]] of Object.entries(ranges)) {
    const value = bounded[name as keyof typeof ranges];
    if (!Number.isInteger(value) || value < min || value > most)
      throw new RangeError(`${name} is ${value}; allowed: a whole number from ${min} to ${most}.`);
  }
  if (max !== Number.POSITIVE_INFINITY && (!Number.isInteger(max) || max < 1))
    throw new RangeError(`max is ${max}; allowed: a whole number from 1, or Infinity.`);
  return { ...bounded, max, once, filter, counts, signal, webhookIds };
}

/**
 * - `retrying`: a call failed and is repeated, or the credential was refused and another one is waited for; reported once for each outage
 * - `recovered`: a call was answered again, or another credential was accepted
 * - `failed`: a handler failed; the delivery is attempted again, or becomes a dead letter after the last attempt
 * - `lease_lost`: the lease ended before the delivery was settled, so the delivery is delivered again
 */
export type AgentNotice = { message: string } & (
  | { kind: 'retrying'; cause: string; afterMs: number }
  | { kind: 'recovered' }
  | { kind: 'failed'; delivery: Delivery; reason: string }
  | { kind: 'lease_lost'; delivery: Delivery }
);

/** Must not throw. */
export type Notify = (notice: AgentNotice) => void;
