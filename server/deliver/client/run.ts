/** The main loop of an agent: claims deliveries up to the free capacity, works on them and settles them, and drains on request. */
import { setMaxListeners } from 'node:events';
import type { AgentApi } from './api.ts';
import { claimAll } from './claims.ts';
import type { ClaimedDelivery, Delivery } from './delivery.ts';
import { NotBegun, Retry, reasonOf, WeirError } from './errors.ts';
import { Leases } from './leases.ts';
import type { Notify } from './notices.ts';
import type { CompleteOptions, RunCounts } from './options.ts';
import { type Outcome, Settler, type Verdict } from './settle.ts';
import { Slots } from './slots.ts';
import { openWork, type Work } from './work.ts';

/** Maximum number of claimed but unsettled deliveries. It limits how many wait for responses to acks when the work is fast. */
const UNSETTLED_MAX = 10_000;

/** Maximum time to settle after the last work of a drain has ended. */
const SETTLE_MS_MAX = 10_000;

/** A handler that still runs this long after its signal aborted, at the end of a drain, is no longer waited for. */
const HANDLER_GRACE_MS = 10_000;

const released: Verdict = { kind: 'released' };

interface RunParts {
  api: AgentApi;
  notify: Notify;
  /** Ends all calls and asks all work to stop. */
  closed: AbortSignal;
  /** Returns: ack. Throws: nack, or release for NotBegun. `settled` resolves when the delivery was settled by one of its methods. */
  handler: (delivery: Delivery, settled: Promise<void>) => unknown;
}

export class Run {
  readonly #options: CompleteOptions;
  readonly #parts: RunParts;
  readonly #stop = new AbortController();
  readonly #cut = new AbortController();
  readonly #settler: Settler;
  readonly #leases: Leases;
  readonly #slots: Slots;
  /** Work that was begun and has not ended. */
  readonly #works = new Set<Work>();
  readonly #unsettled = new Set<Promise<void>>();
  readonly #timers: NodeJS.Timeout[] = [];
  #settlingBounded = false;
  #failure: unknown = null;
  #changed = () => {};

  constructor(options: CompleteOptions, parts: RunParts) {
    this.#options = options;
    this.#parts = parts;
    this.#settler = new Settler(parts.api, this.#cut.signal);
    this.#leases = new Leases(parts.api, options.leaseSeconds, (error) => this.#fail(error), this.#cut.signal);
    this.#slots = new Slots(options.concurrency, this.#stop.signal);
    setMaxListeners(0, this.#stop.signal, this.#cut.signal);
  }

  /** Resolves when every delivery is settled or all work was cut off. Rejects with WeirError on a permanent failure. Call it once. */
  async run(): Promise<RunCounts> {
    const { signal, counts } = this.#options;
    const { closed } = this.#parts;
    const onStop = () => this.#drain();
    const onClosed = () => this.#cutOff(new WeirError('closed', 'The agent was closed.', 'Create a new Agent.'));
    signal?.addEventListener('abort', onStop);
    closed.addEventListener('abort', onClosed);
    try {
      if (closed.aborted) onClosed();
      else if (signal?.aborted) onStop();
      await this.#claimAll().catch((error) => this.#fail(error));
      while (this.#unsettled.size > 0) await Promise.all(this.#unsettled);
    } finally {
      signal?.removeEventListener('abort', onStop);
      closed.removeEventListener('abort', onClosed);
      this.#leases.close();
      for (const timer of this.#timers) clearTimeout(timer);
      this.#stop.abort();
      this.#cut.abort();
    }
    if (this.#failure !== null) throw this.#failure;
    return counts;
  }

  #claimAll(): Promise<void> {
    const { once, leaseSeconds, waitSeconds, webhookIds, max, counts } = this.#options;
    const settled = () => counts.done + counts.failed;
    return claimAll({
      api: this.#parts.api,
      order: {
        lease_seconds: leaseSeconds,
        wait_seconds: waitSeconds,
        ...(webhookIds !== undefined && { webhook_ids: webhookIds }),
      },
      once,
      room: () =>
        Math.min(this.#slots.room(), UNSETTLED_MAX - this.#unsettled.size, max - settled() - this.#unsettled.size),
      enough: () => settled() >= max,
      changed: () =>
        new Promise((resolve) => {
          this.#changed = resolve;
        }),
      begin: (claimed) => this.#begin(claimed),
      batch: () => this.#slots.batch(),
      takeAcks: () => this.#settler.takeAcks(),
      keepAcks: (isKept) => this.#settler.keepAcks(isKept),
      signal: this.#stop.signal,
    });
  }

  #begin(claimed: ClaimedDelivery): void {
    this.#options.counts.claimed += 1;
    const work = openWork(
      claimed,
      (verdict) => this.#settle(work, verdict),
      (seconds) => this.#leases.extend(claimed.receipt, seconds),
    );
    const settled = this.#follow(work)
      .catch((error) => this.#fail(error))
      .finally(() => {
        this.#unsettled.delete(settled);
        this.#changed();
      });
    this.#unsettled.add(settled);
  }

  async #follow(work: Work): Promise<void> {
    const { delivery } = work;
    this.#leases.hold(delivery.receipt, () => {
      work.lost = true;
      const message = `Delivery ${delivery.id}: its lease was lost, so its work is stopped; it will be delivered again.`;
      this.#parts.notify({ kind: 'lease_lost', message, delivery });
      work.stop.abort(new WeirError('lease_lost', message, 'Stop the work on this delivery.'));
    });
    const mayBegin = await this.#slots.enter();
    const verdict = mayBegin ? await this.#workInSlot(work) : released;
    this.#leases.release(delivery.receipt);
    this.#changed();
    this.#boundSettling();
    if (work.settling !== null) {
      await work.settling;
      if (verdict?.kind === 'failed' && !this.#cut.signal.aborted) this.#reportFailure(delivery, verdict.reason);
    } else if (work.lost) this.#options.counts.gone += 1;
    else if (verdict !== undefined && verdict.kind !== 'failed') await this.#settle(work, verdict);
    else if (work.cutShort || verdict === undefined) {
      const reason = `stopped: it still ran ${this.#options.drainSeconds} s after the agent was asked to stop`;
      await this.#settle(work, { kind: 'failed', reason, delaySeconds: 0 });
    } else await this.#settle(work, verdict);
  }

  /** Undefined: the handler is no longer waited for. */
  async #workInSlot(work: Work): Promise<Verdict | undefined> {
    const startMs = performance.now();
    this.#works.add(work);
    // A lease can be lost while its delivery waits for a slot.
    const ended = work.lost ? released : this.#perform(work);
    const verdict = await Promise.race([ended, work.abandoned.promise.then(() => undefined)]);
    this.#works.delete(work);
    this.#slots.leave(performance.now() - startMs);
    return verdict;
  }

  async #perform({ delivery, settled }: Work): Promise<Verdict> {
    try {
      if (this.#options.filter(delivery.event)) await this.#parts.handler(delivery, settled.promise);
      return { kind: 'done' };
    } catch (error) {
      if (error instanceof NotBegun) return released;
      const delaySeconds = error instanceof Retry ? error.delaySeconds : undefined;
      return { kind: 'failed', reason: reasonOf(error), delaySeconds };
    }
  }

  /** The first verdict counts. */
  #settle(work: Work, verdict: Verdict): Promise<Outcome> {
    if (work.settling === null) {
      this.#leases.release(work.delivery.receipt);
      work.settling = this.#send(work.delivery, verdict);
      work.settling.then(
        () => work.settled.resolve(),
        () => work.settled.resolve(),
      );
    }
    return work.settling;
  }

  async #send(delivery: Delivery, verdict: Verdict): Promise<Outcome> {
    const { counts } = this.#options;
    if (this.#cut.signal.aborted) return 'stopped';
    if (verdict.kind === 'failed') this.#reportFailure(delivery, verdict.reason);
    const outcome = await this.#settler.settle(delivery.receipt, verdict);
    if (outcome === 'gone') {
      counts.gone += 1;
      const message = `Delivery ${delivery.id}: its lease was lost before it was settled, so it will be delivered again.`;
      this.#parts.notify({ kind: 'lease_lost', message, delivery });
    } else if (outcome === 'done') {
      if (verdict.kind === 'released') counts.claimed -= 1;
      else counts[verdict.kind] += 1;
    }
    return outcome;
  }

  #reportFailure(delivery: Delivery, reason: string): void {
    const message = `Delivery ${delivery.id}, attempt ${delivery.attempt}: ${reason}`;
    this.#parts.notify({ kind: 'failed', message, delivery, reason });
  }

  #drain(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#changed();
    const { drainSeconds } = this.#options;
    const over = () =>
      this.#stopWorks(new WeirError('drain_ended', `${drainSeconds} s to drain are over.`, 'Stop the work.'));
    this.#timers.push(setTimeout(over, drainSeconds * 1000));
    this.#boundSettling();
  }

  #boundSettling(): void {
    if (!this.#stop.signal.aborted || this.#works.size > 0 || this.#settlingBounded) return;
    this.#settlingBounded = true;
    this.#timers.push(setTimeout(() => this.#cutOff(new Error('the server does not respond')), SETTLE_MS_MAX));
  }

  #cutOff(reason: unknown): void {
    this.#cut.abort(reason);
    this.#stop.abort();
    this.#changed();
    this.#stopWorks(reason);
  }

  #stopWorks(reason: unknown): void {
    const works = [...this.#works];
    for (const work of works) {
      work.cutShort = true;
      work.stop.abort(reason);
    }
    const abandon = () => {
      for (const work of works) work.abandoned.resolve();
    };
    this.#timers.push(setTimeout(abandon, HANDLER_GRACE_MS));
  }

  /** Records a failure after which nothing can be settled. */
  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#cutOff(error);
  }
}
