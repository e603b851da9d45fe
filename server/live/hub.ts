/** In the primary: asks the processes once a second what they counted, adds it up, and tells them all. */
import type { Depth, Live, Sample, Second } from './counters.ts';
import { History } from './history.ts';
import { Tally } from './tally.ts';

const EVERY_MS = 1_000;
/** Counting deliveries costs a query: at most this often, and only while somebody watches. */
const DEPTH_EVERY_MS = 5_000;

interface HubParts {
  /** Resolves when `take` was called for every process that answers in time. */
  collect: () => Promise<void>;
  tell: (live: Live) => void;
  /** Rejects when it cannot be counted now. */
  countDeliveries: () => Promise<Depth>;
}

export class LiveHub {
  readonly #parts: HubParts;
  readonly #tally = new Tally(Date.now());
  readonly #history = new History();
  #timer: NodeJS.Timeout | null = null;
  #asking = false;
  #depth: Depth | null = null;
  #depthDueMs = 0;

  constructor(parts: HubParts) {
    this.#parts = parts;
  }

  /** For a process that starts. */
  get history(): Second[] {
    return [...this.#history.seconds];
  }

  take(pid: number, sample: Sample): void {
    this.#tally.take(pid, sample, Date.now());
  }

  ended(pid: number): void {
    this.#tally.ended(pid);
  }

  start(): void {
    this.#timer = setInterval(() => void this.#tick(), EVERY_MS);
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  async #tick(): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    await this.#parts.collect();
    this.#asking = false;
    if (!this.#tally.watched) this.#depth = null;
    else if (performance.now() >= this.#depthDueMs) this.#countDeliveries();
    const live = this.#tally.second(Date.now(), this.#depth);
    this.#history.add(live);
    this.#parts.tell(live);
  }

  /** The seconds do not wait for it. */
  #countDeliveries(): void {
    this.#depthDueMs = Number.POSITIVE_INFINITY;
    this.#parts
      .countDeliveries()
      .catch(() => null)
      .then((depth) => {
        this.#depth = depth;
        this.#depthDueMs = performance.now() + DEPTH_EVERY_MS;
      });
  }
}
