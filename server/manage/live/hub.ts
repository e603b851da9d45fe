/**
 * Runs in the primary: collects the counters of all processes once a second, sums them, and sends the result to all processes.
 */
import type { DiskState, ProcessDeaths } from '../../model/machines.ts';
import { type Depth, History, type Live, type Sample, type Second } from './counters.ts';
import type { OutageLog } from './outages.ts';
import { Tally } from './tally.ts';

const EVERY_MS = 1_000;
/** Counting deliveries takes a query. It runs at most this often, and only while a stream is open. */
const DEPTH_EVERY_MS = 5_000;

interface HubParts {
  /** Resolves once `take` has been called for every process that responds in time. Rejects if the processes cannot be asked now. */
  collect: () => Promise<void>;
  /** Sends the counts of the last second to every process. */
  send: (live: Live) => void;
  /** Whether the database answers the primary. */
  databaseAnswers: () => boolean;
  outages: Pick<OutageLog, 'second'>;
  deaths: () => ProcessDeaths;
  disks: () => DiskState[];
  /** Rejects if the deliveries cannot be counted now. */
  countDeliveries: () => Promise<Depth>;
}

export class LiveHub {
  readonly #parts: HubParts;
  readonly #tally = new Tally(Date.now());
  readonly #history = new History();
  #timer: NodeJS.Timeout | null = null;
  #collecting = false;
  #depth: Depth | null = null;
  #depthDueMs = 0;

  constructor(parts: HubParts) {
    this.#parts = parts;
  }

  /** Initial history for a starting process. */
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
    if (this.#collecting) return;
    this.#collecting = true;
    // If the processes cannot be asked, the second is made of their last samples.
    await this.#parts.collect().catch(() => {});
    this.#collecting = false;
    if (!this.#tally.watched) this.#depth = null;
    else if (performance.now() >= this.#depthDueMs) this.#countDeliveries();
    const live = this.#tally.second(Date.now(), this.#depth, this.#parts.databaseAnswers());
    live.outage = this.#parts.outages.second(live);
    live.process_deaths = this.#parts.deaths();
    live.disks = this.#parts.disks();
    this.#history.add(live);
    this.#parts.send(live);
  }

  /** Not awaited, so that counting does not delay the next second. */
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
