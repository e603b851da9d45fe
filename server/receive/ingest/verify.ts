/** Step `verify`: collects the bodies of one event-loop turn and has a thread verify them as one task. */
import type { MessagePort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { type Batch, type FailedBatch, noVerdict, type VerifyTask, VerifyThread, verdictOf } from './verify-thread.ts';

/** Requests in one task. A longer queue is distributed over the threads. */
const BATCH_ITEMS_MAX = 256;
/** Body bytes in one task, so that small bodies do not wait for a few huge ones. */
const BATCH_BYTES_MAX = 4_194_304;
/**
 * After a thread died or hung, the requests of its batch are verified again one by one: only the request at fault fails twice, and gets
 * 503. After this many failures the remaining requests of the batch get 503 too: each failure may take HMAC_TIMEOUT_MS.
 */
const BATCH_FAILURES_MAX = 4;
/** Number of checks for an overdue batch within HMAC_TIMEOUT_MS. */
const OVERDUE_CHECKS = 4;

export interface VerifyObserver {
  batch(items: number): void;
  /** A thread died, threw, or exceeded HMAC_TIMEOUT_MS. */
  threadFailed(error: Error): void;
}

/**
 * Each thread of the pool runs one Piscina task for its whole life, and gets its batches over its own port. One Piscina task for each batch
 * would cost the event loop more (bench/NOTES.md).
 */
export class Verifier {
  readonly #pool: Piscina<MessagePort, void>;
  readonly #timeoutMs: number;
  readonly #observer: VerifyObserver;
  /** One entry for each thread; null after a failure, until there is a batch for a new thread. */
  readonly #threads: (VerifyThread | null)[];
  readonly #overdueCheck: NodeJS.Timeout;
  #waiting: VerifyTask[] = [];
  /** Requests of failed batches, each alone. They take turns with new batches. */
  #retries: Batch[] = [];
  #retriedLast = false;
  #scheduled = false;
  #closed = false;

  /** @param workerFile compiled workers/hmac.js; a thread cannot load TypeScript. */
  constructor(options: { workerFile: string; threads: number; timeoutMs: number; observer: VerifyObserver }) {
    this.#timeoutMs = options.timeoutMs;
    this.#observer = options.observer;
    this.#pool = new Piscina({
      filename: options.workerFile,
      minThreads: options.threads,
      maxThreads: options.threads,
      // Piscina tries require() first. If a thread is terminated while it starts, require() of an ES module is interrupted and
      // Node aborts the whole process (an assertion in CreateRequiredModuleFacade). import() is not affected.
      execArgv: ['--no-experimental-require-module'],
      // Limits a thread's memory apart from the shared bodies.
      resourceLimits: { maxOldGenerationSizeMb: 64 },
    });
    this.#pool.on('error', (error: Error) => this.#observer.threadFailed(error));
    this.#threads = Array.from({ length: options.threads }, (_, index) => this.#openThread(index));
    this.#overdueCheck = setInterval(() => this.#abortOverdue(), this.#timeoutMs / OVERDUE_CHECKS).unref();
  }

  verify(task: VerifyTask): void {
    this.#waiting.push(task);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Runs after the poll phase, when all bodies read in this turn are queued.
    setImmediate(() => this.#dispatch());
  }

  /** Requests waiting for a thread. */
  get queued(): number {
    return this.#waiting.length + this.#retries.length;
  }

  get threads(): number {
    return this.#pool.threads.length;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#overdueCheck);
    for (const thread of this.#threads) thread?.port.close();
    await this.#pool.destroy();
  }

  /** Starts batches while threads are free. While all are busy, the next batch grows; it starts when a thread finishes. */
  #dispatch(): void {
    this.#scheduled = false;
    for (let index = 0; index < this.#threads.length && !this.#closed; index++) {
      if (this.#retries.length === 0 && this.#waiting.length === 0) return;
      this.#threads[index] ??= this.#openThread(index);
      const thread = this.#threads[index]!;
      if (thread.batch === null) thread.send(this.#nextBatch(), performance.now() + this.#timeoutMs);
    }
  }

  #nextBatch(): Batch {
    this.#retriedLast = this.#retries.length > 0 && !(this.#retriedLast && this.#waiting.length > 0);
    return this.#retriedLast ? this.#retries.shift()! : this.#takeBatch();
  }

  #takeBatch(): Batch {
    let bytes = 0;
    let items = 0;
    while (items < this.#waiting.length && items < BATCH_ITEMS_MAX && (items === 0 || bytes < BATCH_BYTES_MAX))
      bytes += this.#waiting[items++]!.body.length;
    this.#observer.batch(items);
    return { tasks: this.#waiting.splice(0, items), failed: null };
  }

  #openThread(index: number): VerifyThread {
    const thread = new VerifyThread(this.#pool, {
      verified: (batch, verdicts) => {
        this.#dispatch();
        for (let i = 0; i < verdicts.length; i++) batch.tasks[i]!.takeVerdict(verdictOf(verdicts[i]!));
      },
      ended: (error) => {
        this.#threads[index] = null;
        if (!this.#closed) this.#onFailure(thread.batch, error);
      },
    });
    return thread;
  }

  #onFailure(batch: Batch | null, error: Error): void {
    this.#observer.threadFailed(error);
    if (batch?.failed === null) {
      const failed = { failures: 1 };
      for (const task of batch.tasks) this.#retries.push({ tasks: [task], failed });
    } else if (batch !== null) this.#giveUp(batch, batch.failed);
    this.#dispatch();
  }

  /** Gives up a request that failed again; after BATCH_FAILURES_MAX failures also the other requests of its first batch. */
  #giveUp(batch: Batch, failed: FailedBatch): void {
    const isLast = ++failed.failures >= BATCH_FAILURES_MAX;
    const rest = isLast ? this.#retries.filter((retry) => retry.failed === failed) : [];
    if (isLast) this.#retries = this.#retries.filter((retry) => retry.failed !== failed);
    for (const { tasks } of [batch, ...rest]) for (const task of tasks) task.takeVerdict(noVerdict);
  }

  /** After a stall of the event loop, timers run before arrived verdicts are read. So setImmediate waits until the verdicts are read. */
  #abortOverdue(): void {
    const nowMs = performance.now();
    for (const thread of this.#threads) {
      if (thread === null || thread.batch === null || thread.dueMs > nowMs) continue;
      const { batch } = thread;
      setImmediate(() => {
        if (thread.batch === batch && !this.#closed) thread.abort();
      });
    }
  }
}
