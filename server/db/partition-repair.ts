/** Creates missing partitions after a commit failed for lack of one (SQLSTATE 23514), in the process that noticed it. */
import { makePartitions } from './partitions.ts';
import type { Database } from './pool.ts';

/** Minimum interval between two attempts, however many commits fail. */
const EVERY_MS = 1_000;

interface RepairObserver {
  made(partitions: readonly string[]): void;
  failed(error: Error): void;
}

export class PartitionRepair {
  readonly #database: Database;
  readonly #observer: RepairObserver;
  #underWay: Promise<void> | null = null;
  #startedMs = Number.NEGATIVE_INFINITY;

  constructor(database: Database, observer: RepairObserver) {
    this.#database = database;
    this.#observer = observer;
  }

  /** Starts a repair, unless one is in progress or was started within EVERY_MS. */
  begin(): void {
    if (this.#underWay !== null || performance.now() - this.#startedMs < EVERY_MS) return;
    this.#startedMs = performance.now();
    this.#underWay = this.#run().finally(() => {
      this.#underWay = null;
    });
  }

  /** Resolves when no repair is in progress. */
  async close(): Promise<void> {
    await this.#underWay;
  }

  async #run(): Promise<void> {
    try {
      const made = await makePartitions(this.#database, Date.now());
      if (made.length > 0) this.#observer.made(made);
    } catch (error) {
      this.#observer.failed(error as Error);
    }
  }
}
