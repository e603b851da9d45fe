/** Step `verify`: collects the bodies of one event-loop turn and has a thread verify them as one task. */
import { Piscina } from 'piscina';
import type { VerifyBatch } from '../../workers/hmac.ts';
import type { Keyring } from '../signatures/check.ts';
import type { Presented } from '../signatures/scheme.ts';

/** Requests in one task. A longer queue is distributed over the threads. */
const BATCH_ITEMS_MAX = 256;
/** Body bytes in one task, so that small bodies do not wait for a few huge ones. */
const BATCH_BYTES_MAX = 4_194_304;
/** Attempts for one batch: after a thread died or hung, another thread retries before the requests get 503. */
const TRIES = 2;

/** `keyPlace`: index of the key in the keyring. */
export type Verdict = { kind: 'verified'; keyPlace: number } | { kind: 'mismatch' } | { kind: 'unavailable' };

export interface VerifyObserver {
  batch(items: number): void;
  /** A thread died, threw, or exceeded HMAC_TIMEOUT_MS. */
  threadFailed(error: Error): void;
}

export type Claims = Pick<Extract<Presented, { kind: 'digests' }>, 'digests' | 'prefix' | 'suffix'>;

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

export class Verifier {
  readonly #pool: Piscina<VerifyBatch, Uint8Array>;
  readonly #timeoutMs: number;
  readonly #observer: VerifyObserver;
  readonly #threads: number;
  #waiting: VerifyTask[] = [];
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

  verify(task: VerifyTask): void {
    this.#waiting.push(task);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Runs after the poll phase, when all bodies read in this turn are queued.
    setImmediate(() => this.#dispatch());
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

  #takeBatch(): VerifyTask[] {
    let bytes = 0;
    let items = 0;
    while (items < this.#waiting.length && items < BATCH_ITEMS_MAX && (items === 0 || bytes < BATCH_BYTES_MAX))
      bytes += this.#waiting[items++]!.body.length;
    return this.#waiting.splice(0, items);
  }

  async #run(tasks: readonly VerifyTask[]): Promise<void> {
    this.#observer.batch(tasks.length);
    const verdicts = await this.#tryOnThreads(toMessage(tasks));
    for (const [i, task] of tasks.entries()) task.settleVerdict(verdictOf(verdicts?.[i]));
  }

  /**
   * Returns null after TRIES failed attempts. Verdicts are returned in the message, never through shared memory: a thread that
   * resumes after its timeout can read old bodies but cannot change a verdict.
   */
  async #tryOnThreads(message: VerifyBatch): Promise<Uint8Array | null> {
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

/** @param answer the thread's byte for a request; undefined: there is none. */
function verdictOf(answer: number | undefined): Verdict {
  if (answer === undefined) return unavailable;
  if (answer === 0) return mismatch;
  return answer === 1 ? verifiedByCurrent : { kind: 'verified', keyPlace: answer - 1 };
}

const unavailable: Verdict = { kind: 'unavailable' };
const mismatch: Verdict = { kind: 'mismatch' };
const verifiedByCurrent: Verdict = { kind: 'verified', keyPlace: 0 };

function toMessage(tasks: readonly VerifyTask[]): VerifyBatch {
  const memories = new Places<SharedArrayBuffer>();
  const keyrings = new Places<Keyring>();
  const claimedCounts = Uint8Array.from(tasks, (task) => task.claims.digests.length);
  const spans = new Uint32Array(tasks.length * 3);
  const keyringOf = new Uint16Array(tasks.length);
  let claimedBytes = 0;
  let hasAffixes = false;
  for (const { claims } of tasks) {
    const { digests, prefix, suffix } = claims;
    for (const digest of digests) claimedBytes += digest.length;
    if (prefix !== '' || suffix !== '') hasAffixes = true;
  }
  const claimed = new Uint8Array(claimedBytes);
  let at = 0;
  tasks.forEach(({ body, keyring, claims: { digests } }, i) => {
    spans[i * 3] = memories.of(body.buffer);
    spans[i * 3 + 1] = body.byteOffset;
    spans[i * 3 + 2] = body.length;
    keyringOf[i] = keyrings.of(keyring);
    for (const digest of digests) {
      claimed.set(digest, at);
      at += digest.length;
    }
  });
  const affixes = hasAffixes ? tasks.flatMap(({ claims: { prefix, suffix } }) => [prefix, suffix]) : null;
  return { memories: memories.all, spans, claimed, claimedCounts, affixes, keyrings: keyrings.all, keyringOf };
}

/** Numbers distinct objects in order of first use. */
class Places<T> {
  readonly all: T[] = [];

  of(item: T): number {
    const known = this.all.lastIndexOf(item);
    return known >= 0 ? known : this.all.push(item) - 1;
  }
}
