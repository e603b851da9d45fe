/** Evaluates filters in a thread, which starts on demand and ends when idle, so that neither time nor memory of a process depends on them. */
import { Piscina } from 'piscina';
import type { FilterFailure, FilterTask } from '../../workers/filter.ts';
import { type CandidateEvent, type Verdict, verdicts } from './evaluate.ts';

const IDLE_MS = 30_000;
/** The thread is replaced if it has not answered by then, its start included, and the time limit of an event, a few times over. */
const THREAD_TIMEOUT_MS = 10_000;
const THREAD_TIMEOUT_EVENTS = 4;
/** Tasks that wait for the thread. Further ones are not decided. */
const QUEUE_MAX = 256;
/** Heap of the thread, for the compiled filters, one parsed body and what an expression makes of it. */
const HEAP_MEGABYTES_MAX = 256;

/** `verdicts`: of each event, in order. `failures`: the last one of each filter that failed. */
export interface Judged {
  verdicts: Verdict[];
  failures: FilterFailure[];
}

export class FilterJudge {
  readonly #pool: Piscina<FilterTask, FilterFailure[]>;
  readonly #limits: Pick<FilterTask, 'eventTimeoutMs' | 'taskTimeoutMs'>;
  readonly #threadTimeoutMs: number;

  /**
   * @param workerFile compiled workers/filter.js; a thread cannot load TypeScript.
   * @param eventTimeoutMs FILTER_TIMEOUT_MS
   * @param options.taskTimeoutMs events that are not begun within this time stay undecided.
   */
  constructor(
    workerFile: string,
    eventTimeoutMs: number,
    { taskTimeoutMs = eventTimeoutMs, heapMegabytesMax = HEAP_MEGABYTES_MAX } = {},
  ) {
    this.#limits = { eventTimeoutMs, taskTimeoutMs };
    this.#threadTimeoutMs = THREAD_TIMEOUT_MS + THREAD_TIMEOUT_EVENTS * eventTimeoutMs;
    this.#pool = new Piscina({
      filename: workerFile,
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: IDLE_MS,
      maxQueue: QUEUE_MAX,
      // See ingest/verify.ts.
      execArgv: ['--no-experimental-require-module'],
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytesMax },
    });
    // No handling needed: when a thread dies, its task rejects.
    this.#pool.on('error', () => {});
  }

  /**
   * Judges events. An event whose evaluation takes too long, or at which the thread died, failed: it is delivered. Events behind it can
   * be undecided. Never rejects.
   */
  async judge(filters: readonly string[], events: readonly CandidateEvent[]): Promise<Judged> {
    const decided = new Uint8Array(new SharedArrayBuffer(events.length));
    if (this.#pool.queueSize >= QUEUE_MAX) return { verdicts: [...decided] as Verdict[], failures: [] };
    try {
      const failures = await this.#pool.run(
        { filters, events, decided, ...this.#limits },
        { signal: AbortSignal.timeout(this.#threadTimeoutMs) },
      );
      return { verdicts: [...decided] as Verdict[], failures };
    } catch (error) {
      const at = decided.indexOf(verdicts.undecided);
      const given = [...decided] as Verdict[];
      if (at < 0) return { verdicts: given, failures: [] };
      given[at] = verdicts.failed;
      return {
        verdicts: given,
        failures: [{ filter: events[at]!.filter, reason: reasonOf(error as Error), broken: false }],
      };
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

function reasonOf({ name, message }: Error): string {
  return name === 'AbortError' ? 'the thread did not answer in time' : `the thread ended: ${message}`.slice(0, 200);
}
