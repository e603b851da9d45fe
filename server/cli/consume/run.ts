/** The main loop of `weir consume`: claims deliveries up to the free capacity, processes and settles them, and drains on request. */
import { setMaxListeners } from 'node:events';
import { CommandError } from '../io.ts';
import type { AgentApi } from './api.ts';
import { claimAll } from './claims.ts';
import type { Delivery, Work, Worker, WorkOutcome } from './delivery.ts';
import { Leases } from './leases.ts';
import type { ConsumeTally } from './progress.ts';
import { Settler } from './settle.ts';

/** Maximum number of claimed but unsettled deliveries. It limits how many wait for responses to acks when the work is fast. */
const UNSETTLED_MAX = 10_000;

/** Maximum time to settle after the last work of a drain has ended. */
const SETTLE_MS_MAX = 10_000;

interface ConsumeJob {
  /** Maximum number of deliveries processed at a time. */
  concurrency: number;
  /** Stop after this many settled deliveries; null: no limit. */
  max: number | null;
  /** Stop when the deliveries of one claim are settled. */
  once: boolean;
  leaseSeconds: number;
  waitSeconds: number;
  /** Null: every webhook that the agent is subscribed to. */
  webhookIds: readonly string[] | null;
  /** Work that is running when a drain starts may continue for this long. */
  drainSeconds: number;
}

interface ConsumeParts {
  api: AgentApi;
  worker: Worker;
  tally: ConsumeTally;
  /** Prints a message; must not throw. */
  report: (line: string) => void;
  /** Starts a drain: no more claims; running work may finish and is settled. */
  stop: AbortController;
  /** Ends all calls and all work. The reason `hurry` kills commands; any other reason asks them to stop. */
  cut: AbortController;
}

export class Consumption {
  readonly #job: ConsumeJob;
  readonly #parts: ConsumeParts;
  readonly #settler: Settler;
  readonly #leases: Leases;
  readonly #works = new Set<Work>();
  readonly #unsettled = new Set<Promise<void>>();
  /** Work that was still running at the end of the drain period. */
  readonly #cutShort = new Set<Work>();
  readonly #timers: NodeJS.Timeout[] = [];
  #settlingBounded = false;
  #failure: unknown = null;
  #changed = () => {};

  constructor(job: ConsumeJob, parts: ConsumeParts) {
    this.#job = job;
    this.#parts = parts;
    this.#settler = new Settler(parts.api);
    this.#leases = new Leases(parts.api, job.leaseSeconds, (error) => this.#fail(error));
  }

  /** Resolves when every delivery is settled or all work was cut off. Rejects with CommandError on a permanent failure. Call it once. */
  async run(): Promise<void> {
    const { stop, cut } = this.#parts;
    setMaxListeners(0, stop.signal, cut.signal);
    const onStop = () => this.#drain();
    const onCut = () => this.#cutOff();
    stop.signal.addEventListener('abort', onStop);
    cut.signal.addEventListener('abort', onCut);
    try {
      await this.#claimAll().catch((error) => this.#fail(error));
      while (this.#unsettled.size > 0) await Promise.all(this.#unsettled);
    } finally {
      stop.signal.removeEventListener('abort', onStop);
      cut.signal.removeEventListener('abort', onCut);
      this.#leases.close();
      for (const timer of this.#timers) clearTimeout(timer);
    }
    if (this.#failure !== null) throw this.#failure;
  }

  #claimAll(): Promise<void> {
    const { concurrency, once, leaseSeconds, waitSeconds, webhookIds } = this.#job;
    const { api, tally, stop } = this.#parts;
    const max = this.#job.max ?? Number.POSITIVE_INFINITY;
    return claimAll({
      api,
      order: {
        lease_seconds: leaseSeconds,
        wait_seconds: waitSeconds,
        ...(webhookIds === null ? {} : { webhook_ids: webhookIds }),
      },
      once,
      room: () =>
        Math.min(
          concurrency - this.#works.size,
          UNSETTLED_MAX - this.#unsettled.size,
          max - tally.settled - this.#unsettled.size,
        ),
      enough: () => tally.settled >= max,
      changed: () =>
        new Promise((resolve) => {
          this.#changed = resolve;
        }),
      begin: (delivery) => this.#begin(delivery),
      signal: stop.signal,
    });
  }

  #begin(delivery: Delivery): void {
    this.#parts.tally.claimed += 1;
    const settled = this.#follow(delivery)
      .catch((error) => this.#fail(error))
      .finally(() => {
        this.#unsettled.delete(settled);
        this.#changed();
      });
    this.#unsettled.add(settled);
  }

  async #follow(delivery: Delivery): Promise<void> {
    const { worker, tally, report } = this.#parts;
    const work = worker(delivery);
    let lost = false;
    this.#works.add(work);
    tally.running = this.#works.size;
    this.#leases.hold(delivery.receipt, () => {
      lost = true;
      report(`Delivery ${delivery.id}: its lease was lost, so its work is stopped; it will be delivered again.`);
      work.stop();
    });
    const verdict = await work.verdict;
    this.#leases.release(delivery.receipt);
    this.#works.delete(work);
    tally.running = this.#works.size;
    this.#changed();
    this.#boundSettling();
    if (lost) tally.gone += 1;
    else if (this.#cutShort.has(work)) {
      // Exit code 0 of a command that was asked to stop does not mean that its work was done.
      const reason = `stopped: it still ran ${this.#job.drainSeconds} s after the agent was asked to stop`;
      await this.#settle(delivery, { kind: 'failed', reason }, 0);
    } else await this.#settle(delivery, verdict);
  }

  /** @param delaySeconds delay before the next attempt after a failure; the server decides when it is omitted */
  async #settle({ id, receipt, attempt }: Delivery, verdict: WorkOutcome, delaySeconds?: number): Promise<void> {
    const { tally, report, cut } = this.#parts;
    if (cut.signal.aborted) return;
    if (verdict.kind !== 'done') {
      tally.lastError = verdict.reason;
      report(`Delivery ${id}, attempt ${attempt}: ${verdict.reason}`);
    }
    if (verdict.kind === 'broken') this.#drainAfter(verdict.reason);
    const outcome =
      verdict.kind === 'done'
        ? await this.#settler.ack(receipt)
        : await this.#settler.nack(receipt, {
            reason: verdict.reason,
            ...(delaySeconds === undefined ? {} : { delay_seconds: delaySeconds }),
          });
    if (outcome === 'stopped') return;
    if (outcome === 'gone') {
      tally.gone += 1;
      report(`Delivery ${id}: its lease was lost before it was settled, so it will be delivered again.`);
    } else if (verdict.kind === 'done') tally.done += 1;
    else tally.failed += 1;
  }

  #drain(): void {
    this.#changed();
    const over = () => {
      for (const work of this.#works) {
        this.#cutShort.add(work);
        work.stop();
      }
    };
    this.#timers.push(setTimeout(over, this.#job.drainSeconds * 1000));
    this.#boundSettling();
  }

  #boundSettling(): void {
    const { stop, cut } = this.#parts;
    if (!stop.signal.aborted || this.#works.size > 0 || this.#settlingBounded) return;
    this.#settlingBounded = true;
    this.#timers.push(setTimeout(() => cut.abort('the server does not respond'), SETTLE_MS_MAX));
  }

  #cutOff(): void {
    this.#parts.stop.abort();
    for (const work of this.#works) {
      if (this.#parts.cut.signal.reason === 'hurry') work.kill();
      else work.stop();
    }
  }

  /** Records a failure after which nothing can be settled. */
  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#parts.cut.abort(error);
  }

  /** Records a failure that affects every delivery, and starts a drain. */
  #drainAfter(reason: string): void {
    this.#failure ??= new CommandError(`${reason}.`);
    this.#parts.stop.abort();
  }
}
