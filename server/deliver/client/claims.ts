/**
 * Claims deliveries up to the free capacity, until enough are settled or a signal ends the loop. After a claim that got all that it asked
 * for, the next one is sent before the work on these begins: the server and the handlers then work at the same time.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { backoffMs, pause } from '../../base/time/backoff.ts';
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
  /** Number of deliveries of one claim, so that another one finds room while it is worked on. */
  batch: () => number;
  /** Takes the acknowledgements that wait to be sent; null: none. */
  takeAcks: () => TakenAcks | null;
  /** True: a claim is soon to take acknowledgements along, so they wait for it. */
  keepAcks: (isKept: boolean) => void;
  signal: AbortSignal;
}

/** Rejects with WeirError when the API refuses claims permanently. */
export async function claimAll(claiming: Claiming): Promise<void> {
  const { order, once, enough, changed, begin, signal } = claiming;
  const waitMs = order.wait_seconds * 1000;
  let empty = 0;
  let sent: Sent | null = null;
  while (!signal.aborted && !enough()) {
    sent ??= send(claiming, 0);
    if (sent === null) {
      await changed();
      // Wait for other deliveries that end in this turn, so that one claim replaces all of them.
      await turn();
      continue;
    }
    const { max, startMs, withAcks } = sent;
    const deliveries: ClaimedDelivery[] = await sent.deliveries;
    sent = null;
    if (!once && deliveries.length === max && !signal.aborted) {
      sent = send(claiming, deliveries.length);
      // The request is written before the handlers take the turn.
      if (sent !== null) await turn();
    }
    claiming.keepAcks(sent !== null);
    for (const delivery of deliveries) begin(delivery);
    if (once) return;
    // This claim did not wait for deliveries; the next one does.
    if (withAcks) continue;
    const early = waitMs === 0 || performance.now() - startMs < waitMs;
    empty = deliveries.length === 0 && early ? empty + 1 : 0;
    if (empty > 0) await pause(backoffMs(empty - 1, emptyBackoff, Math.random()), signal);
  }
  // Its deliveries are released by the run, which has stopped.
  for (const delivery of (await sent?.deliveries) ?? []) begin(delivery);
}

interface Sent {
  max: number;
  startMs: number;
  withAcks: boolean;
  deliveries: Promise<ClaimedDelivery[]>;
}

/** Sends a claim. Null: there is no room. @param claimed deliveries that are about to begin */
function send(claiming: Claiming, claimed: number): Sent | null {
  const max = Math.min(claiming.room() - claimed, claiming.batch());
  if (max < 1) return null;
  const acks = claiming.takeAcks();
  const deliveries = claim(claiming, max, acks);
  // It is awaited later, after the work on others has begun.
  deliveries.catch(() => {});
  return { max, startMs: performance.now(), withAcks: acks !== null, deliveries };
}

/** One claim. A claim with acknowledgements does not wait for deliveries, because handlers wait for its outcome. */
async function claim({ api, order, signal }: Claiming, max: number, acks: TakenAcks | null) {
  if (acks === null) return (await api.claim({ max, ...order }, signal))?.deliveries ?? [];
  try {
    const answer = await api.claim({ max, ...order, wait_seconds: 0, ack: acks.receipts }, signal);
    if (answer === null) acks.returned();
    else acks.settled(answer.settled);
    return answer?.deliveries ?? [];
  } catch (error) {
    acks.returned();
    throw error;
  }
}
