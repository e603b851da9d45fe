/** The sending itself: lanes that take the next request, send it, and repeat it where that is called for. */
import { setMaxListeners } from 'node:events';
import { pause } from '../pause.ts';
import type { Post } from './client.ts';
import { type Attempt, nextStep, Pace } from './pace.ts';
import { requestHeaders, type SignedPayload } from './payloads.ts';
import type { Tally } from './summary.ts';

interface SendJob {
  /** At least one; sent in turn, again from the first when `count` is greater. */
  payloads: readonly SignedPayload[];
  /** Requests to send. */
  count: number;
  /** Requests a second; null: as fast as answers come. */
  rate: number | null;
  /** Requests under way at a time. */
  concurrency: number;
  /** Whether 429, 503 and lost connections are waited out and repeated. */
  wait: boolean;
  signatureHeader: string;
}

/** Is told how it goes; must not throw. */
export interface SendWatcher {
  progress: (sent: number) => void;
  waiting: (cause: string, afterMs: number) => void;
}

/**
 * Sends the job and counts it in `tally`; resolves when every request came to its end, or, once `stop` aborts, when
 * those under way did. A request that `stop` cuts off is not counted: nobody knows its end.
 */
export async function runSend(
  job: SendJob,
  post: Post,
  tally: Tally,
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

  /** The attempt that ended the request; null when `stop` did. */
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

  /** Waits for a place in the schedule that no pause has overtaken. */
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
