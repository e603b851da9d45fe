/** Has a thread find out why signatures were refused. The thread is started when needed and ends when idle. */
import { Piscina } from 'piscina';
import type { Diagnosed } from '../../workers/diagnose.ts';
import type { RefusedRequest } from '../signatures/diagnosis/diagnose.ts';

/** Ends some time after the last refusal: most of the time there is none. */
const IDLE_MS = 30_000;
/** A round is at most 25 bodies; one of 64 KiB takes 30 ms of CPU at worst, 1 KiB takes 1 ms. A busy machine takes its time. */
const TIMEOUT_MS = 10_000;
/** Rounds and checks that wait for the thread; one more is refused. */
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
      // As in verify.ts.
      execArgv: ['--no-experimental-require-module'],
      resourceLimits: { maxOldGenerationSizeMb: 64 },
    });
    // A thread that died: its task is rejected, and that is told.
    this.#pool.on('error', () => {});
  }

  /** Rejects when the thread died, hung, or has too much to do. */
  async diagnose(requests: readonly RefusedRequest[]): Promise<Diagnosed[]> {
    return await this.#pool.run(requests, { signal: AbortSignal.timeout(this.#timeoutMs) });
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}
