/** Runs the diagnosis of refused signatures in a thread. The thread starts on demand and ends when idle. */
import { Piscina } from 'piscina';
import type { Diagnosed } from '../../../workers/diagnose.ts';
import type { RefusedRequest } from '../../model/signatures/diagnosis/refused.ts';

/** The thread ends after this idle time, because most of the time there are no refusals. */
const IDLE_MS = 30_000;
/** A round has at most 25 bodies. A body of 64 KiB takes at most 30 ms of CPU, 1 KiB takes 1 ms; the rest is for a busy machine. */
const TIMEOUT_MS = 10_000;
/** Rounds and checks waiting for the thread. Further ones are refused. */
const QUEUE_MAX = 32;

export class Diagnoser {
  readonly #timeoutMs: number;
  readonly #pool: Piscina<readonly RefusedRequest[], Diagnosed[]>;

  /** @param workerFile compiled workers/diagnose.js; a thread cannot load TypeScript. */
  constructor(workerFile: string, { timeoutMs = TIMEOUT_MS } = {}) {
    this.#timeoutMs = timeoutMs;
    this.#pool = new Piscina({
      filename: workerFile,
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: IDLE_MS,
      maxQueue: QUEUE_MAX,
      // See verify.ts.
      execArgv: ['--no-experimental-require-module'],
      resourceLimits: { maxOldGenerationSizeMb: 64 },
    });
    // No handling needed: when a thread dies, its task rejects and the caller reports the error.
    this.#pool.on('error', () => {});
  }

  /** Diagnoses the requests, in order. Rejects when the thread dies, times out, or the queue is full. */
  async diagnose(requests: readonly RefusedRequest[]): Promise<Diagnosed[]> {
    return await this.#pool.run(requests, { signal: AbortSignal.timeout(this.#timeoutMs) });
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}
