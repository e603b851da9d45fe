/**
 * The circuit breaker of a target. After FAILURES_MAX failures in a row nothing is sent: the target is probed with back-off, and when it
 * accepts a connection, one request is tried. Deliveries wait in their slots, so that no more are claimed, and their leases are extended.
 */
import { type Backoff, backoffMs, pause } from '../../base/time/backoff.ts';
import { NotBegun } from '../../deliver/client/delivery.ts';

export const FAILURES_MAX = 5;

/** Wait before a probe of the target. */
const backoff: Backoff = { firstMs: 1_000, maxMs: 30_000 };

interface BreakerParts {
  target: { name: string; probe: () => Promise<boolean> };
  /** Prints a message; must not throw. */
  report: (line: string) => void;
  /** When it aborts, no waiting delivery is begun. */
  stop: AbortSignal;
  wait?: (ms: number, signal: AbortSignal) => Promise<void>;
}

export class TargetBreaker {
  readonly #parts: Required<BreakerParts>;
  /**
   * - `closed`: the target answers
   * - `open`: nothing is sent; the target is probed until the stop
   * - `trial`: the target accepts connections, and one request may be sent
   * - `tried`: that request has no result yet
   */
  #state: 'closed' | 'open' | 'trial' | 'tried' = 'closed';
  #failures = 0;
  /** Probes since the state was last `closed`. */
  #probes = 0;
  #waiting: (() => void)[] = [];

  constructor(parts: BreakerParts) {
    this.#parts = { wait: pause, ...parts };
    parts.stop.addEventListener('abort', () => this.#wake());
  }

  /**
   * Resolves when a request may be sent; `succeeded`, `failed` or `undecided` follows. Rejects with NotBegun when the stop or the
   * signal comes before.
   */
  async enter(signal: AbortSignal): Promise<void> {
    const wake = () => this.#wake();
    signal.addEventListener('abort', wake);
    try {
      while (this.#state !== 'closed') {
        if (this.#parts.stop.aborted || signal.aborted) throw new NotBegun();
        if (this.#state === 'trial') {
          this.#state = 'tried';
          return;
        }
        await new Promise<void>((resolve) => this.#waiting.push(resolve));
      }
    } finally {
      signal.removeEventListener('abort', wake);
    }
  }

  /** The target answered, and could have taken a delivery. Requests that were in flight when the breaker opened do not count. */
  succeeded(): void {
    this.#failures = 0;
    if (this.#state === 'open' || this.#state === 'closed') return;
    this.#state = 'closed';
    this.#probes = 0;
    this.#parts.report(`${this.#parts.target.name} answers again; deliveries are forwarded.`);
    this.#wake();
  }

  /** The target gave no answer, or is overloaded or broken. */
  failed(problem: string): void {
    if (this.#state === 'open') return;
    this.#failures += 1;
    const isFirst = this.#state === 'closed';
    if (isFirst && this.#failures < FAILURES_MAX) return;
    this.#state = 'open';
    if (isFirst)
      this.#parts.report(
        `${this.#parts.target.name}: ${FAILURES_MAX} failures in a row, the last one ${problem}. No more deliveries are forwarded until it answers.`,
      );
    void this.#probe();
  }

  /** The request was not sent, or was stopped: another one is tried. */
  undecided(): void {
    if (this.#state !== 'tried') return;
    this.#state = 'trial';
    this.#wake();
  }

  async #probe(): Promise<void> {
    const { target, stop, wait } = this.#parts;
    do {
      await wait(backoffMs(this.#probes++, backoff, Math.random()), stop);
      if (stop.aborted) return;
    } while (!(await target.probe()));
    this.#state = 'trial';
    this.#wake();
  }

  #wake(): void {
    for (const resume of this.#waiting.splice(0)) resume();
  }
}
