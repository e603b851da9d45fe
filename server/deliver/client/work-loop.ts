/** The main loop of an agent: claims deliveries up to the free capacity, works on them and settles them, and drains on request. */
import { setMaxListeners } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { backoffMs, pause } from '../../base/time/backoff.ts';
import { type Claim, DeliveryApi } from './api.ts';
import type { ClaimedDelivery } from './delivery.ts';
import { WeirError } from './http.ts';
import type { CompleteOptions, Notify, RunCounts } from './options.ts';
import { Pace } from './pace.ts';
import type { AgentSession } from './session.ts';
import { Work, type WorkHandler, type WorkParts } from './work.ts';

/** Maximum number of claimed but unsettled deliveries. It limits how many wait for responses to acks when the work is fast. */
const UNSETTLED_MAX = 10_000;

/** A delivery that still waits for a slot after this time is released, so that slow work takes nothing from an idle consumer. */
const WAIT_MS_MAX = 1_000;

const TICK_MS = 250;

/** Maximum time to settle after the last work of a drain has ended. */
const SETTLE_MS_MAX = 10_000;

/** At the end of a drain, a handler that still runs this long after its signal aborted is abandoned. */
const HANDLER_GRACE_MS = 10_000;

/** Delay before the next claim when the server answers a long poll early and empty. */
const emptyBackoff = { firstMs: 100, maxMs: 1_000 };

/** One run of an agent, from its first claim to its last settlement. */
export class Run {
  readonly #options: CompleteOptions;
  readonly #parts: WorkParts;
  readonly #pace: Pace;
  /** Ends claims. */
  readonly #stop = new AbortController();
  /** Ends every request. */
  readonly #cut = new AbortController();
  /** All work that was claimed and is not settled: it waits for a slot, runs in one, or is being settled. */
  readonly #unsettled = new Set<Work>();
  #waiting: Work[] = [];
  readonly #running = new Set<Work>();
  readonly #timers: NodeJS.Timeout[] = [];
  #isSettlingBounded = false;
  #failure: unknown = null;
  #changed = () => {};

  constructor(options: CompleteOptions, session: AgentSession, handler: WorkHandler, notify: Notify) {
    this.#options = options;
    const cut = this.#cut.signal;
    this.#parts = { options, handler, notify, cut, api: new DeliveryApi(session, cut) };
    this.#pace = new Pace(options.concurrency);
    setMaxListeners(0, this.#stop.signal, cut);
  }

  /**
   * Resolves when every delivery is settled or all work was cut off. Rejects with WeirError on a permanent failure. Call it once.
   * @param closed ends all calls and asks all work to stop
   */
  async run(closed: AbortSignal): Promise<RunCounts> {
    const { signal, counts } = this.#options;
    const onStop = () => this.#drain();
    const onClosed = () => this.#cutOff(new WeirError('closed', 'The agent was closed.', 'Create a new Agent.'));
    signal?.addEventListener('abort', onStop);
    closed.addEventListener('abort', onClosed);
    this.#timers.push(setInterval(() => this.#tick(), TICK_MS));
    try {
      if (closed.aborted) onClosed();
      else if (signal?.aborted) onStop();
      await this.#claimAll().catch((error) => this.#fail(error));
      while (this.#unsettled.size > 0) await this.#change();
    } finally {
      signal?.removeEventListener('abort', onStop);
      closed.removeEventListener('abort', onClosed);
      for (const timer of this.#timers) clearTimeout(timer);
      this.#stop.abort();
      this.#cut.abort();
    }
    if (this.#failure !== null) throw this.#failure;
    return counts;
  }

  /** Resolves when work has ended or is settled, or when the run is to stop. */
  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#changed = resolve;
    });
  }

  /**
   * Claims until enough deliveries are settled or the run is to stop. After a claim that got all that it asked for, the next claim is sent
   * before the work on these deliveries begins: the server and the handlers then work at the same time.
   */
  async #claimAll(): Promise<void> {
    const { once, waitSeconds } = this.#options;
    const stop = this.#stop.signal;
    let empty = 0;
    let next: Claim | null = null;
    while (!stop.aborted && this.#wanted() > 0) {
      const claim: Claim | null = next ?? this.#claim(0);
      if (claim === null) {
        await this.#change();
        // Wait for other deliveries that end in this turn, so that one claim replaces all of them.
        await turn();
        continue;
      }
      const deliveries: ClaimedDelivery[] = await claim.deliveries;
      next = once || deliveries.length < claim.max || stop.aborted ? null : this.#claim(deliveries.length);
      // Let the request be written before handlers occupy the event loop.
      if (next !== null) await turn();
      this.#parts.api.keepAcks(next !== null);
      for (const delivery of deliveries) this.#begin(delivery);
      if (once) return;
      // This claim did not wait for deliveries; the next one does.
      if (claim.withAcks) continue;
      const early = waitSeconds === 0 || performance.now() - claim.startMs < waitSeconds * 1000;
      empty = deliveries.length === 0 && early ? empty + 1 : 0;
      if (empty > 0) await pause(backoffMs(empty - 1, emptyBackoff, Math.random()), stop);
    }
    // These deliveries are released, because the run has stopped.
    for (const delivery of (await next?.deliveries) ?? []) this.#begin(delivery);
  }

  #wanted(): number {
    const { max, counts } = this.#options;
    return max - counts.done - counts.failed;
  }

  /** Sends a claim. Null: there is no room. @param claimed deliveries that are about to begin */
  #claim(claimed: number): Claim | null {
    const { room, batch } = this.#pace.room(this.#running.size, this.#waiting.length);
    const unsettledMax = Math.min(UNSETTLED_MAX, this.#wanted());
    const max = Math.min(batch, Math.min(room, unsettledMax - this.#unsettled.size) - claimed);
    if (max < 1) return null;
    const { leaseSeconds, waitSeconds, webhookIds } = this.#options;
    return this.#parts.api.claim(
      { max, lease_seconds: leaseSeconds, wait_seconds: waitSeconds, webhook_ids: webhookIds },
      this.#stop.signal,
    );
  }

  #begin(claimed: ClaimedDelivery): void {
    this.#options.counts.claimed += 1;
    const work = new Work(claimed, this.#parts);
    this.#unsettled.add(work);
    this.#waiting.push(work);
    this.#fillSlots();
  }

  /** Begins waiting work while slots are free. After a stop, releases it. */
  #fillSlots(): void {
    while (this.#waiting.length > 0 && (this.#stop.signal.aborted || this.#running.size < this.#options.concurrency)) {
      const work = this.#waiting.shift()!;
      void (this.#stop.signal.aborted ? this.#release(work) : this.#work(work));
    }
  }

  async #work(work: Work): Promise<void> {
    const startMs = performance.now();
    this.#pace.began(this.#running.size);
    this.#running.add(work);
    const verdict = await work.perform();
    this.#running.delete(work);
    this.#pace.ended(performance.now() - startMs);
    this.#fillSlots();
    await this.#ended(work, work.end(verdict));
  }

  #release(work: Work): Promise<void> {
    return this.#ended(work, work.end({ kind: 'released' }));
  }

  async #ended(work: Work, settled: Promise<void>): Promise<void> {
    this.#changed();
    this.#boundSettling();
    await settled.catch((error) => this.#fail(error));
    this.#unsettled.delete(work);
    this.#changed();
  }

  #tick(): void {
    const lateMs = performance.now() - WAIT_MS_MAX;
    while (this.#waiting.length > 0 && this.#waiting[0]!.claimedMs <= lateMs)
      void this.#release(this.#waiting.shift()!);
    for (const work of this.#unsettled) work.keepLease().catch((error) => this.#fail(error));
  }

  #drain(): void {
    if (this.#stop.signal.aborted) return;
    this.#stopClaims();
    const { drainSeconds } = this.#options;
    const over = () =>
      this.#stopWorks(new WeirError('drain_ended', `${drainSeconds} s to drain are over.`, 'Stop the work.'));
    this.#timers.push(setTimeout(over, drainSeconds * 1000));
    this.#boundSettling();
  }

  #stopClaims(): void {
    this.#stop.abort();
    this.#fillSlots();
    this.#changed();
  }

  #boundSettling(): void {
    if (!this.#stop.signal.aborted || this.#running.size > 0 || this.#isSettlingBounded) return;
    this.#isSettlingBounded = true;
    this.#timers.push(setTimeout(() => this.#cutOff(new Error('the server does not respond')), SETTLE_MS_MAX));
  }

  #cutOff(reason: unknown): void {
    this.#cut.abort(reason);
    this.#stopClaims();
    this.#stopWorks(reason);
  }

  #stopWorks(reason: unknown): void {
    const works = [...this.#running];
    for (const work of works) work.stop(reason);
    const abandon = () => {
      for (const work of works) work.abandon();
    };
    this.#timers.push(setTimeout(abandon, HANDLER_GRACE_MS));
  }

  /** Records a failure after which nothing can be settled. */
  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#cutOff(error);
  }
}
