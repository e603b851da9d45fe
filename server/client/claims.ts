/** Claims deliveries up to the free capacity, until enough are settled or a signal ends the loop. */
import { setImmediate as turn } from 'node:timers/promises';
import { backoffMs, pause } from '../net/backoff.ts';
import type { AgentApi, ClaimRequest } from './api.ts';
import type { ClaimedDelivery } from './delivery.ts';
import type { TakenAcks } from './settle.ts';

/** Delay before the next claim when the server answers a long poll early and empty. */
const emptyBackoff = { firstMs: 100, maxMs: 1_000 };

interface Claiming {
  api: AgentApi;
  /** The claim without its size. */
  order: Omit<ClaimRequest, 'max'>;
  /** Stop after one claim. */
  once: boolean;
  /** Number of deliveries that may be claimed now; below one: wait for a change. */
  room: () => number;
  /** True when no more deliveries are needed. */
  enough: () => boolean;
  /** Resolves when `room` or `enough` may have changed, or when the signal aborts. */
  changed: () => Promise<void>;
  begin: (delivery: ClaimedDelivery) => void;
  /** Takes the acknowledgements that wait to be sent; null: none. */
  takeAcks: () => TakenAcks | null;
  signal: AbortSignal;
}

/** Rejects with WeirError when the API refuses claims permanently. */
export async function claimAll(claiming: Claiming): Promise<void> {
  const { order, once, room, enough, changed, begin, signal } = claiming;
  const waitMs = order.wait_seconds * 1000;
  let empty = 0;
  while (!signal.aborted && !enough()) {
    const max = room();
    if (max < 1) {
      await changed();
      // Wait for other deliveries that end in this turn, so that one claim replaces all of them.
      await turn();
      continue;
    }
    const startMs = performance.now();
    const acks = claiming.takeAcks();
    const deliveries = await claim(claiming, max, acks);
    for (const delivery of deliveries) begin(delivery);
    if (once) return;
    // This claim did not wait for deliveries; the next one does.
    if (acks !== null) continue;
    const early = waitMs === 0 || performance.now() - startMs < waitMs;
    empty = deliveries.length === 0 && early ? empty + 1 : 0;
    if (empty > 0) await pause(backoffMs(empty - 1, emptyBackoff, Math.random()), signal);
  }
}

/** One claim. A claim with acknowledgements does not wait for deliveries, because handlers wait for its outcome. */
async function claim({ api, order, signal }: Claiming, max: number, acks: TakenAcks | null) {
  if (acks === null) return (await api.claim({ max, ...order }, signal))?.deliveries ?? [];
  try {
    const answer = await api.claim({ max, ...order, wait_seconds: 0, ack: acks.receipts }, signal);
    if (answer === null) acks.returned();
    else acks.settled(answer.done);
    return answer?.deliveries ?? [];
  } catch (error) {
    acks.returned();
    throw error;
  }
}
