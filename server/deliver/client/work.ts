/** The work on one claimed delivery: its handler, its lease, and its settlement. */
import { setMaxListeners } from 'node:events';
import type { DeliveryApi, SettlementOutcome } from './api.ts';
import {
  type ClaimedDelivery,
  Delivery,
  type DeliveryWork,
  NotBegun,
  Retry,
  reasonOf,
  type Settlement,
  type Verdict,
} from './delivery.ts';
import { WeirError } from './http.ts';
import type { CompleteOptions, Notify } from './options.ts';

/**
 * Works on a delivery. A return acknowledges it, NotBegun releases it, and any other error refuses it.
 * @param onSettled registers a callback for the settlement of the delivery
 */
export type WorkHandler = (delivery: Delivery, onSettled: (settled: () => void) => void) => unknown;

export interface WorkParts {
  options: CompleteOptions;
  api: DeliveryApi;
  /** Nothing is settled after it. */
  cut: AbortSignal;
  handler: WorkHandler;
  notify: Notify;
}

/** One claimed delivery, from its claim to its settlement. Extends the lease while the handler runs. */
export class Work implements DeliveryWork {
  readonly delivery: Delivery;
  readonly claimedMs = performance.now();
  readonly #parts: WorkParts;
  /** Start of a lease of the usual length that ends when this one does, as performance.now(). */
  #leasedMs = this.claimedMs;
  #isExtending = false;
  /** False: the lease is lost, or no longer needed. */
  #isLeased = true;
  #isLost = false;
  /** The first settlement; null before it. */
  #settling: Promise<SettlementOutcome> | null = null;
  #onSettled = () => {};
  #abandoned = () => {};
  #controller: AbortController | null = null;
  /** Why the handler was asked to stop. */
  #stopped: { reason: unknown } | null = null;

  constructor(claimed: ClaimedDelivery, parts: WorkParts) {
    this.#parts = parts;
    this.delivery = new Delivery(claimed, this);
  }

  /** Created when it is first read: most handlers never do, and it costs a third of the work on a delivery. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      setMaxListeners(0, this.#controller.signal);
      if (this.#stopped !== null) this.#controller.abort(this.#stopped.reason);
    }
    return this.#controller.signal;
  }

  /** Asks the handler to stop. The first reason counts. */
  stop(reason: unknown): void {
    this.#stopped ??= { reason };
    this.#controller?.abort(reason);
  }

  /** Ends the wait for the handler. */
  abandon(): void {
    this.#abandoned();
  }

  /** Calls the handler. Resolves with null when `abandon` is called first. */
  perform(): Promise<Verdict | null> {
    return new Promise((resolve) => {
      this.#abandoned = () => resolve(null);
      void this.#handle().then(resolve);
    });
  }

  async #handle(): Promise<Verdict> {
    // A lease can be lost while its delivery waits for a slot.
    if (this.#isLost) return { kind: 'released' };
    try {
      if (this.#parts.options.filter(this.delivery.event))
        await traced(this.delivery.toJSON(), () =>
          this.#parts.handler(this.delivery, (settled) => {
            this.#onSettled = settled;
          }),
        );
      return { kind: 'done' };
    } catch (error) {
      if (error instanceof NotBegun) return { kind: 'released' };
      const delaySeconds = error instanceof Retry ? error.delaySeconds : undefined;
      return { kind: 'failed', reason: reasonOf(error), delaySeconds };
    }
  }

  /** Settles the delivery by what `perform` returned, unless its own methods have settled it. Rejects with WeirError. */
  async end(verdict: Verdict | null): Promise<void> {
    const { options, cut } = this.#parts;
    this.#isLeased = false;
    if (this.#settling !== null) {
      await this.#settling;
      if (verdict?.kind === 'failed' && !cut.aborted) this.#reportFailure(verdict.reason);
    } else if (this.#isLost) options.counts.gone += 1;
    else if (verdict === null || (verdict.kind === 'failed' && this.#stopped !== null)) {
      const reason = `stopped: it still ran ${options.drainSeconds} s after the agent was asked to stop`;
      await this.#settleOnce({ kind: 'failed', reason, delaySeconds: 0 });
    } else await this.#settleOnce(verdict);
  }

  async settle(verdict: Verdict): Promise<Settlement> {
    return settlementOf(await this.#settleOnce(verdict));
  }

  async extend(seconds: number): Promise<Settlement> {
    return settlementOf(await this.#extend(seconds));
  }

  /** Extends the lease when a third of it has passed. Rejects with WeirError. */
  async keepLease(): Promise<void> {
    const { leaseSeconds } = this.#parts.options;
    const isDue = performance.now() - this.#leasedMs >= (leaseSeconds * 1000) / 3;
    if (!this.#isLeased || this.#isExtending || !isDue) return;
    this.#isExtending = true;
    const outcome = await this.#extend(leaseSeconds);
    this.#isExtending = false;
    // A delivery that was settled during the request has no lease to lose.
    if (outcome !== 'gone' || !this.#isLeased) return;
    this.#isLeased = false;
    this.#isLost = true;
    const message = this.#reportLoss('its lease was lost, so its work is stopped; it will be delivered again.');
    this.stop(new WeirError('lease_lost', message, 'Stop the work on this delivery.'));
  }

  async #extend(seconds: number): Promise<SettlementOutcome> {
    const askedMs = performance.now();
    const outcome = await this.#parts.api.extend(this.delivery.receipt, seconds);
    if (outcome === 'done') this.#leasedMs = askedMs + (seconds - this.#parts.options.leaseSeconds) * 1000;
    return outcome;
  }

  /** The first verdict counts. */
  #settleOnce(verdict: Verdict): Promise<SettlementOutcome> {
    this.#settling ??= this.#send(verdict).finally(() => this.#onSettled());
    return this.#settling;
  }

  async #send(verdict: Verdict): Promise<SettlementOutcome> {
    const { options, cut, api } = this.#parts;
    this.#isLeased = false;
    if (cut.aborted) return 'stopped';
    if (verdict.kind === 'failed') this.#reportFailure(verdict.reason);
    const outcome = await api.settle(this.delivery.receipt, verdict);
    if (outcome === 'gone') {
      options.counts.gone += 1;
      this.#reportLoss('its lease was lost before it was settled, so it will be delivered again.');
    } else if (outcome === 'done') {
      if (verdict.kind === 'released') options.counts.claimed -= 1;
      else options.counts[verdict.kind] += 1;
    }
    return outcome;
  }

  #reportLoss(what: string): string {
    const message = `Delivery ${this.delivery.id}: ${what}`;
    this.#parts.notify({ kind: 'lease_lost', message, delivery: this.delivery });
    return message;
  }

  #reportFailure(reason: string): void {
    const message = `Delivery ${this.delivery.id}, attempt ${this.delivery.attempt}: ${reason}`;
    this.#parts.notify({ kind: 'failed', message, delivery: this.delivery, reason });
  }
}

/** Throws WeirError `closed` when the outcome is unknown. */
function settlementOf(outcome: SettlementOutcome): Settlement {
  if (outcome !== 'stopped') return outcome;
  throw new WeirError(
    'closed',
    'The agent stopped before the server answered, so the outcome is unknown.',
    'Expect the delivery again when its lease expires.',
  );
}

interface Context {
  setValue(key: symbol, value: unknown): Context;
}
interface Span {
  setStatus(status: { code: number; message?: string }): unknown;
  end(): void;
}
interface Api {
  trace?: { getTracer(name: string): { startSpan(name: string, options: object, context: Context): Span } };
  context?: { active(): Context; with<T>(context: Context, work: () => T): T };
  propagation?: { extract(context: Context, carrier: object, getter: object): Context };
}

const API = Symbol.for('opentelemetry.js.api.1');
/** Key of the active span, the same in all copies of the API. */
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');
const CONSUMER = 4;
const ERROR = 2;
const getter = {
  get: (carrier: Record<string, string>, name: string) => carrier[name],
  keys: (carrier: object) => Object.keys(carrier),
};

/**
 * Runs the work. If the program has set up OpenTelemetry, the work runs in a span of the trace that Weir continues. The span is made by the
 * API object that `@opentelemetry/api` 1.x registers for all its copies, so this package does not depend on that one.
 */
async function traced(delivery: ClaimedDelivery, work: () => unknown): Promise<void> {
  const { trace, context, propagation } = ((globalThis as Record<symbol, unknown>)[API] ?? {}) as Api;
  const { traceparent } = delivery;
  if (traceparent === undefined || !trace || !context || !propagation) return void (await work());
  const parent = propagation.extract(context.active(), { traceparent }, getter);
  const attributes = {
    'weir.delivery.id': delivery.id,
    'weir.delivery.attempt': delivery.attempt,
    'weir.event.id': delivery.event.id,
    'weir.webhook.name': delivery.event.webhook_name,
  };
  const span = trace.getTracer('weir/client').startSpan('handle', { kind: CONSUMER, attributes }, parent);
  try {
    await context.with(parent.setValue(SPAN, span), work);
  } catch (error) {
    span.setStatus({ code: ERROR, message: error instanceof Error ? error.name : 'Error' });
    throw error;
  } finally {
    span.end();
  }
}
