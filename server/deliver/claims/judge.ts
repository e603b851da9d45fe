/** Evaluates filters in threads, which start on demand and end when idle, so that neither time nor memory of a process depends on them. */
import { Piscina } from 'piscina';
import type { FilterFailure, FilterTask } from '../../../workers/filter.ts';
import { type CandidateEvent, type FilterVerdict, verdicts } from '../../model/filters/evaluate.ts';

const IDLE_MS = 30_000;
/**
 * Time limit of a task: THREAD_TIMEOUT_MS, plus THREAD_TIMEOUT_EVENTS times the limit of an event. A task that no thread has begun by then
 * is undecided. A task that was begun gets the same time again; then the thread is replaced.
 */
const THREAD_TIMEOUT_MS = 10_000;
const THREAD_TIMEOUT_EVENTS = 4;
const QUEUE_MAX = 256;
/** The second thread starts when the first is busy. An agent claims once at a time, so it occupies one thread at most. */
const THREADS_MAX = 2;
/** Heap of a thread, for the compiled filters, one parsed body and what an expression makes of it. */
const HEAP_MEGABYTES_MAX = 256;

/** `verdicts`: one for each event, in order. `failures`: the last failure of each filter. */
export interface Judged {
  verdicts: FilterVerdict[];
  failures: FilterFailure[];
}

/** The threads of a process that evaluate filters. */
export class FilterJudge {
  readonly #pool: Piscina<FilterTask, FilterFailure[]>;
  readonly #limits: Pick<FilterTask, 'eventTimeoutMs' | 'taskTimeoutMs'>;
  readonly #threadTimeoutMs: number;
  readonly #queueMax: number;

  /**
   * @param workerFile compiled workers/filter.js; a thread cannot load TypeScript.
   * @param eventTimeoutMs FILTER_TIMEOUT_MS
   * @param options.taskTimeoutMs events that are not begun within this time stay undecided.
   * @param options.queueMax tasks that wait for a thread. Further ones are undecided.
   */
  constructor(
    workerFile: string,
    eventTimeoutMs: number,
    {
      taskTimeoutMs = eventTimeoutMs,
      threadTimeoutMs = THREAD_TIMEOUT_MS + THREAD_TIMEOUT_EVENTS * eventTimeoutMs,
      heapMegabytesMax = HEAP_MEGABYTES_MAX,
      queueMax = QUEUE_MAX,
      threadsMax = THREADS_MAX,
    } = {},
  ) {
    this.#limits = { eventTimeoutMs, taskTimeoutMs };
    this.#threadTimeoutMs = threadTimeoutMs;
    this.#queueMax = queueMax;
    this.#pool = new Piscina({
      filename: workerFile,
      minThreads: 0,
      maxThreads: threadsMax,
      idleTimeout: IDLE_MS,
      maxQueue: queueMax,
      // See receive/ingest/verify.ts.
      execArgv: ['--no-experimental-require-module'],
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytesMax },
    });
    // No handling needed: when a thread dies, its task rejects.
    this.#pool.on('error', () => {});
  }

  /**
   * Judges events. Never rejects. The verdict `failed`, for an evaluation that took too long or at which the thread died, delivers the
   * event. Events behind a failed one can be undecided, and so can all events if the threads have too much to do.
   */
  async judge(filters: readonly string[], events: readonly CandidateEvent[]): Promise<Judged> {
    const shared = new SharedArrayBuffer(events.length + 1);
    const decided = new Uint8Array(shared, 0, events.length);
    const begun = new Uint8Array(shared, events.length);
    const judged = (failures: FilterFailure[]): Judged => ({ verdicts: [...decided] as FilterVerdict[], failures });
    if (this.#pool.queueSize >= this.#queueMax) return judged([]);
    const abort = new AbortController();
    const giveUp = () => abort.abort();
    let timer = setTimeout(() => {
      // The task may have waited for a thread until now.
      if (begun[0] === 1) timer = setTimeout(giveUp, this.#threadTimeoutMs);
      else giveUp();
    }, this.#threadTimeoutMs);
    try {
      const task = { filters, events, begun, decided, ...this.#limits };
      return judged(await this.#pool.run(task, { signal: abort.signal }));
    } catch (error) {
      const at = decided.indexOf(verdicts.undecided);
      // A task that was never begun does not show that one of its events is at fault.
      if (at < 0 || (abort.signal.aborted && begun[0] === 0)) return judged([]);
      decided[at] = verdicts.failed;
      return judged([{ filter: events[at]!.filter, reason: reasonOf(error as Error), slow: 1, broken: false }]);
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

function reasonOf({ name, message }: Error): string {
  return name === 'AbortError' ? 'the thread did not answer in time' : `the thread ended: ${message}`.slice(0, 200);
}
