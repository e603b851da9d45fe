/** Step `verify`: collects the bodies of one event-loop turn and has a thread verify them as one task. */
import { Piscina } from 'piscina';
import type { HmacBatch } from '../../workers/hmac.ts';
import { DIGEST_BYTES } from '../signatures/signature.ts';

/** Requests in one task. A longer queue is distributed over the threads. */
const BATCH_ITEMS_MAX = 256;
/** Body bytes in one task, so that small bodies do not wait for a few huge ones. */
const BATCH_BYTES_MAX = 4_194_304;
/** Attempts for one batch: after a thread died or hung, another thread retries before the requests get 503. */
const TRIES = 2;

export type Verdict = { kind: 'verified'; secretPlace: number } | { kind: 'mismatch' } | { kind: 'unavailable' };

export interface VerifyObserver {
  batch(items: number): void;
  /** A thread died, threw, or exceeded HMAC_TIMEOUT_MS. */
  threadFailed(error: Error): void;
}

interface Task {
  body: Uint8Array<SharedArrayBuffer>;
  claimed: readonly Uint8Array[];
  secrets: readonly Uint8Array[];
  settle: (verdict: Verdict) => void;
}

export class Verifier {
  readonly #pool: Piscina<HmacBatch, Uint8Array>;
  readonly #timeoutMs: number;
  readonly #observer: VerifyObserver;
  readonly #threads: number;
  #waiting: Task[] = [];
  #scheduled = false;
  #running = 0;

  /** @param workerFile compiled workers/hmac.js; a thread cannot load TypeScript. */
  constructor(options: { workerFile: string; threads: number; timeoutMs: number; observer: VerifyObserver }) {
    this.#timeoutMs = options.timeoutMs;
    this.#observer = options.observer;
    this.#threads = options.threads;
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
  }

  /**
   * Verifies a body with every secret (current first) against every claimed digest. Never rejects.
   * @param body must not change until the verdict: threads read it in place.
   */
  verify(
    body: Uint8Array<SharedArrayBuffer>,
    claimed: readonly Uint8Array[],
    secrets: readonly Uint8Array[],
  ): Promise<Verdict> {
    return new Promise((settle) => {
      this.#waiting.push({ body, claimed, secrets, settle });
      if (this.#scheduled) return;
      this.#scheduled = true;
      // Runs after the poll phase, when all bodies read in this turn are queued.
      setImmediate(() => this.#dispatch());
    });
  }

  /** Requests waiting for a thread. */
  get queued(): number {
    return this.#waiting.length;
  }

  /** Running threads. */
  get threads(): number {
    return this.#pool.threads.length;
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  /** Starts tasks while threads are free. While all are busy, the next batch grows; it starts when a thread finishes. */
  #dispatch(): void {
    this.#scheduled = false;
    while (this.#running < this.#threads && this.#waiting.length > 0) {
      this.#running++;
      void this.#run(this.#takeBatch()).finally(() => {
        this.#running--;
        this.#dispatch();
      });
    }
  }

  #takeBatch(): Task[] {
    let bytes = 0;
    let items = 0;
    while (items < this.#waiting.length && items < BATCH_ITEMS_MAX && (items === 0 || bytes < BATCH_BYTES_MAX))
      bytes += this.#waiting[items++]!.body.length;
    return this.#waiting.splice(0, items);
  }

  async #run(tasks: Task[]): Promise<void> {
    this.#observer.batch(tasks.length);
    const verdicts = await this.#tryOnThreads(toMessage(tasks));
    tasks.forEach((task, i) => {
      const verdict = verdicts?.[i];
      if (verdict === undefined) task.settle({ kind: 'unavailable' });
      else task.settle(verdict === 0 ? { kind: 'mismatch' } : { kind: 'verified', secretPlace: verdict - 1 });
    });
  }

  /**
   * Returns null after TRIES failed attempts. Verdicts are returned in the message, never through shared memory: a thread that
   * resumes after its timeout can read old bodies but cannot change a verdict.
   */
  async #tryOnThreads(message: HmacBatch): Promise<Uint8Array | null> {
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const timeout = new AbortController();
      const timer = setTimeout(() => timeout.abort(), this.#timeoutMs);
      try {
        // On abort piscina terminates the thread and starts another one.
        return await this.#pool.run(message, { signal: timeout.signal });
      } catch (error) {
        this.#observer.threadFailed(error as Error);
      } finally {
        clearTimeout(timer);
      }
    }
    return null;
  }
}

function toMessage(tasks: readonly Task[]): HmacBatch {
  const memories = new Places<SharedArrayBuffer>();
  const keyrings = new Places<readonly Uint8Array[]>();
  const claimedCounts = Uint8Array.from(tasks, (task) => task.claimed.length);
  const spans = new Uint32Array(tasks.length * 3);
  const keyringOf = new Uint16Array(tasks.length);
  const claimed = new Uint8Array(claimedCounts.reduce((sum, count) => sum + count, 0) * DIGEST_BYTES);
  let at = 0;
  tasks.forEach(({ body, secrets, claimed: digests }, i) => {
    spans[i * 3] = memories.of(body.buffer);
    spans[i * 3 + 1] = body.byteOffset;
    spans[i * 3 + 2] = body.length;
    keyringOf[i] = keyrings.of(secrets);
    for (const digest of digests) {
      claimed.set(digest, at);
      at += DIGEST_BYTES;
    }
  });
  return { memories: memories.all, spans, claimed, claimedCounts, keyrings: keyrings.all, keyringOf };
}

/** Numbers distinct objects in order of first use. */
class Places<T> {
  readonly all: T[] = [];

  of(item: T): number {
    const known = this.all.lastIndexOf(item);
    return known >= 0 ? known : this.all.push(item) - 1;
  }
}
