/** Sends the requests: concurrent lanes take the next request, send it, and retry it when required. */
import { setMaxListeners } from 'node:events';
import { pause } from '../pause.ts';
import type { Post } from './client.ts';
import { type Attempt, nextStep, Pace } from './pace.ts';
import { requestHeaders, type SignedPayload } from './payloads.ts';
import type { SendTally } from './summary.ts';

interface SendJob {
  /** At least one; sent in order, starting over when `count` is greater. */
  payloads: readonly SignedPayload[];
  /** Requests to send. */
  count: number;
  /** Requests per second; null: no limit, the next request follows each response. */
  rate: number | null;
  /** Maximum number of requests in flight. */
  concurrency: number;
  /** Whether to wait and retry after 429, 503 and lost connections. */
  wait: boolean;
  signatureHeader: string;
}

/** Progress callbacks; must not throw. */
export interface SendWatcher {
  progress: (sent: number) => void;
  waiting: (cause: string, afterMs: number) => void;
}

/**
 * Sends all requests and counts the results in `tally`. Resolves when every request has ended or, once `stop` aborts, when
 * the requests in flight have ended. A request that `stop` cancels is not counted, because its result is unknown.
 */
export async function runSend(
  job: SendJob,
  post: Post,
  tally: SendTally,
  watcher: SendWatcher,
  stop: AbortSignal,
): Promise<void> {
  setMaxListeners(0, stop);
  const pace = new Pace(job.rate, performance.now());
  let begun = 0;

  const lane = async () => {
    while (begun < job.count && !stop.aborted) {
      const payload = job.payloads[begun % job.payloads.length]!;
      begun += 1;
      const last = await sendOne(payload);
      if (last === null) return;
      tally.finished(last, payload.body.length);
      watcher.progress(tally.sent);
    }
  };

  /** Returns the last attempt of the request; null when `stop` ended it. */
  const sendOne = async (payload: SignedPayload): Promise<Attempt | null> => {
    const headers = requestHeaders(payload, job.signatureHeader);
    let tries = 0;
    let refusals = 0;
    let notBeforeMs = 0;
    while (true) {
      await turn(notBeforeMs);
      if (stop.aborted) return null;
      const attempt = await post(headers, payload.body);
      if (attempt.kind === 'answered' && attempt.status === 429) refusals += 1;
      else tries += 1;
      if (stop.aborted && attempt.kind === 'failed') return null;
      const next = job.wait ? nextStep(attempt, tries, refusals, Math.random()) : ({ kind: 'finished' } as const);
      if (next.kind === 'finished') return attempt;
      if (stop.aborted) return null;
      tally.repeated(attempt);
      watcher.waiting(attempt.kind === 'failed' ? attempt.name : String(attempt.status), next.afterMs);
      notBeforeMs = performance.now() + next.afterMs;
      if (next.forAll) pace.holdUntil(notBeforeMs);
    }
  };

  /** Waits for a slot of the schedule that is not delayed. */
  const turn = async (notBeforeMs: number) => {
    await pause(notBeforeMs - performance.now(), stop);
    do {
      const dueMs = pace.take();
      await pause(dueMs - performance.now(), stop);
      tally.late(job.rate === null ? 0 : performance.now() - dueMs);
    } while (pace.isHeldAt(performance.now()) && !stop.aborted);
  };

  await Promise.all(Array.from({ length: Math.min(job.concurrency, job.count) }, lane));
}
