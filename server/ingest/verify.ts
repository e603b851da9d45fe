/** Step `verify`: collects the bodies of one event-loop turn and has a thread verify them as one task. */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { VerifyBatch } from '../../workers/hmac.ts';
import { type Keyring, REQUEST_NUMBERS } from '../signatures/check.ts';
import type { PresentedSignatures } from '../signatures/scheme.ts';

/** Requests in one task. A longer queue is distributed over the threads. */
const BATCH_ITEMS_MAX = 256;
/** Body bytes in one task, so that small bodies do not wait for a few huge ones. */
const BATCH_BYTES_MAX = 4_194_304;
/**
 * After a thread died or hung, the requests of its batch are verified again one by one, so that only the one at fault fails twice and
 * gets 503. After so many failures the remaining requests of the batch get 503 too: each failure may take HMAC_TIMEOUT_MS.
 */
const BATCH_FAILURES_MAX = 4;
/** Checks for an overdue batch within HMAC_TIMEOUT_MS. */
const OVERDUE_CHECKS = 4;

/** `keyPlace`: index of the key in the keyring. */
export type Verdict = { kind: 'verified'; keyPlace: number } | { kind: 'mismatch' } | { kind: 'unavailable' };

export interface VerifyObserver {
  batch(items: number): void;
  /** A thread died, threw, or exceeded HMAC_TIMEOUT_MS. */
  threadFailed(error: Error): void;
}

export type Claims = Pick<PresentedSignatures, 'digests' | 'prefix' | 'suffix'>;

/** A body to verify with every key (current first) against every claimed signature. */
export interface VerifyTask {
  /** Must not change until the verdict: threads read it in place. */
  readonly body: Uint8Array<SharedArrayBuffer>;
  readonly claims: Claims;
  /** The same object for all requests of a webhook, so that a batch holds it once. */
  readonly keyring: Keyring;
  /** Called once, in a later turn. Must not throw. */
  settleVerdict(verdict: Verdict): void;
}

/** Requests that are verified together. */
interface Batch {
  readonly tasks: readonly VerifyTask[];
  /** The failed batch that contained its only request; null when the requests are verified for the first time. */
  readonly failed: FailedBatch | null;
}

/** A batch whose requests are verified again one by one. */
interface FailedBatch {
  /** Number of threads that failed on the batch or on one of its requests. */
  failures: number;
}

/**
 * Each thread of the pool runs one Piscina task for its whole life and gets its batches over a port of its own: a Piscina task for each
 * batch costs the event loop more (bench/NOTES.md).
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
    this.#threads = Array.from({ length: options.threads }, (_, place) => this.#openThread(place));
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

  /** Running threads. */
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
    for (let place = 0; place < this.#threads.length && !this.#closed; place++) {
      if (this.#retries.length === 0 && this.#waiting.length === 0) return;
      this.#threads[place] ??= this.#openThread(place);
      const thread = this.#threads[place]!;
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

  #openThread(place: number): VerifyThread {
    const thread = new VerifyThread(this.#pool, {
      verified: (batch, verdicts) => {
        this.#dispatch();
        for (let i = 0; i < verdicts.length; i++) batch.tasks[i]!.settleVerdict(verdictOf(verdicts[i]!));
      },
      ended: (error) => {
        this.#threads[place] = null;
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

  /** Gives up a request that failed again, and after too many of them the rest of their batch. */
  #giveUp(batch: Batch, failed: FailedBatch): void {
    const isLast = ++failed.failures >= BATCH_FAILURES_MAX;
    const rest = isLast ? this.#retries.filter((retry) => retry.failed === failed) : [];
    if (isLast) this.#retries = this.#retries.filter((retry) => retry.failed !== failed);
    for (const { tasks } of [batch, ...rest]) for (const task of tasks) task.settleVerdict(unavailable);
  }

  #abortOverdue(): void {
    const nowMs = performance.now();
    for (const thread of this.#threads)
      if (thread !== null && thread.batch !== null && thread.dueMs <= nowMs) thread.abort();
  }
}

/** A thread and its port. It verifies one batch at a time. */
class VerifyThread {
  readonly port: MessagePort;
  readonly #controller = new AbortController();
  /** Null: the thread is free. */
  batch: Batch | null = null;
  dueMs = 0;

  constructor(
    pool: Piscina<MessagePort, void>,
    on: { verified: (batch: Batch, verdicts: Uint8Array) => void; ended: (error: Error) => void },
  ) {
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    // Verdicts travel in messages, never through shared memory: a thread that resumes after it was given up can read old bodies, but
    // cannot change a verdict, because its port is closed.
    port1.on('message', (verdicts: Uint8Array) => {
      const batch = this.batch!;
      this.batch = null;
      on.verified(batch, verdicts);
    });
    const ended = (error: Error) => {
      port1.close();
      on.ended(error);
    };
    pool
      .run(port2, { transferList: [port2], signal: this.#controller.signal })
      .then(() => ended(new Error('the thread ended')), ended);
  }

  send(batch: Batch, dueMs: number): void {
    this.batch = batch;
    this.dueMs = dueMs;
    this.port.postMessage(toMessage(batch.tasks));
  }

  /** Piscina terminates the thread and starts another one. */
  abort(): void {
    this.#controller.abort();
  }
}

/** @param answer the thread's byte for a request. */
function verdictOf(answer: number): Verdict {
  if (answer === 0) return mismatch;
  return answer === 1 ? verifiedByCurrent : { kind: 'verified', keyPlace: answer - 1 };
}

const unavailable: Verdict = { kind: 'unavailable' };
const mismatch: Verdict = { kind: 'mismatch' };
const verifiedByCurrent: Verdict = { kind: 'verified', keyPlace: 0 };

function toMessage(tasks: readonly VerifyTask[]): VerifyBatch {
  const memories = new Places<SharedArrayBuffer>();
  const keyrings = new Places<Keyring>();
  const requests = new Uint32Array(tasks.length * REQUEST_NUMBERS);
  let claimedBytes = 0;
  let hasAffixes = false;
  for (const { claims } of tasks) {
    for (const digest of claims.digests) claimedBytes += digest.length;
    if (claims.prefix !== '' || claims.suffix !== '') hasAffixes = true;
  }
  const claimed = new Uint8Array(claimedBytes);
  let claimedAt = 0;
  let at = 0;
  for (const { body, keyring, claims } of tasks) {
    requests[at++] = memories.of(body.buffer);
    requests[at++] = body.byteOffset;
    requests[at++] = body.length;
    requests[at++] = keyrings.of(keyring);
    requests[at++] = claims.digests.length;
    for (const digest of claims.digests) {
      claimed.set(digest, claimedAt);
      claimedAt += digest.length;
    }
  }
  const affixes = hasAffixes ? tasks.flatMap(({ claims: { prefix, suffix } }) => [prefix, suffix]) : null;
  return { memories: memories.all, requests, claimed, affixes, keyrings: keyrings.all };
}

/** Numbers distinct objects in order of first use. */
class Places<T> {
  readonly all: T[] = [];

  of(item: T): number {
    const known = this.all.lastIndexOf(item);
    return known >= 0 ? known : this.all.push(item) - 1;
  }
}
