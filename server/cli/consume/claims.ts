/** Claims deliveries, as many as there is room for, until enough are settled or a signal ends it. */
import { setImmediate as turn } from 'node:timers/promises';
import { backoffMs } from '../../net/backoff.ts';
import { pause } from '../pause.ts';
import type { AgentApi, ClaimOrder } from './api.ts';
import type { Delivery } from './delivery.ts';

/** A server that answers a long poll with nothing, before its time, is not asked again at once. */
const emptyBackoff = { firstMs: 100, maxMs: 1_000 };

interface Claiming {
  api: AgentApi;
  /** All but how many. */
  order: Omit<ClaimOrder, 'max'>;
  /** One claim is enough. */
  once: boolean;
  /** How many more may be claimed; below one: wait for a change. */
  room: () => number;
  /** Whether there is nothing more to claim. */
  enough: () => boolean;
  /** Resolves when `room` or `enough` may have changed, or the signal has come. */
  changed: () => Promise<void>;
  begin: (delivery: Delivery) => void;
  signal: AbortSignal;
}

/** Rejects with CommandError when the API refuses claims for good. */
export async function claimAll(claiming: Claiming): Promise<void> {
  const { api, order, once, room, enough, changed, begin, signal } = claiming;
  const waitMs = order.wait_seconds * 1000;
  let empty = 0;
  while (!signal.aborted && !enough()) {
    const max = room();
    if (max < 1) {
      await changed();
      // What else ends in this turn makes room for the same claim.
      await turn();
      continue;
    }
    const startMs = performance.now();
    const deliveries = (await api.claim({ max, ...order }, signal)) ?? [];
    for (const delivery of deliveries) begin(delivery);
    if (once) return;
    const early = waitMs === 0 || performance.now() - startMs < waitMs;
    empty = deliveries.length === 0 && early ? empty + 1 : 0;
    if (empty > 0) await pause(backoffMs(empty - 1, emptyBackoff, Math.random()), signal);
  }
}
