/**
 * Thread entry point: evaluates filters on events. A regular expression can take exponential time on a body that its sender chose, so
 * node:vm interrupts an evaluation that takes too long. The event is tried a second time, since a machine without a free core can stop the
 * thread for as long; then the thread continues with the next event.
 */
import { Script } from 'node:vm';
import { type CandidateEvent, type Judgement, judgeEvent, verdicts } from '../server/model/filters/evaluate.ts';

export interface FilterTask {
  filters: readonly string[];
  events: readonly CandidateEvent[];
  /** Shared memory, one byte: 1 as soon as the thread has the task. */
  begun: Uint8Array;
  /** Shared memory, one byte for each event. The verdicts survive the death of the thread. Each task has its own array. */
  decided: Uint8Array;
  /** Limit on the evaluation of one event. */
  eventTimeoutMs: number;
  /** No event is begun after this time; those left are undecided. */
  taskTimeoutMs: number;
}

/** The last failure of each filter that failed. */
export interface FilterFailure {
  filter: number;
  reason: string;
  /** Events on which it took too long, or at which the thread died. */
  slow: number;
  /** True when the filter does not compile. */
  broken: boolean;
}

/** The time limit is checked at least this often, so that many quick evaluations never reach the limit of one. */
const SLICE_MS = 20;

/** The code under the time limit. A function of the global object is the way into a script. */
const slice = new Script('weirFilterSlice()');
const global = globalThis as { weirFilterSlice?: () => void };

/** Judges each event by its filter, and writes the verdict to `decided`. Returns the failures. */
export default function judgeAll({
  filters,
  events,
  begun,
  decided,
  eventTimeoutMs,
  taskTimeoutMs,
}: FilterTask): FilterFailure[] {
  begun[0] = 1;
  const endMs = performance.now() + taskTimeoutMs;
  const failures = new Map<number, FilterFailure>();
  let place = 0;
  /** The event at which the time limit was last reached. */
  let slowAt = -1;
  const decide = ({ verdict, failure, broken }: Judgement, slow = 0) => {
    const { filter } = events[place]!;
    const before = failures.get(filter)?.slow ?? 0;
    if (failure !== null)
      failures.set(filter, { filter, reason: failure, slow: before + slow, broken: broken === true });
    decided[place++] = verdict;
  };
  global.weirFilterSlice = () => {
    const sliceEndMs = performance.now() + SLICE_MS;
    while (place < events.length && performance.now() < sliceEndMs) {
      const event = events[place]!;
      decide(judgeEvent(filters[event.filter]!, event));
    }
  };
  while (place < events.length && (performance.now() < endMs || place === 0 || place === slowAt)) {
    try {
      slice.runInThisContext({ timeout: eventTimeoutMs });
    } catch (error) {
      if ((error as { code?: string }).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      if (slowAt === place)
        decide({ verdict: verdicts.failed, failure: `it took longer than ${eventTimeoutMs} ms` }, 1);
      else slowAt = place;
    }
  }
  return [...failures.values()];
}
