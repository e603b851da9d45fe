/** Sends the requests: concurrent lanes take the next request, send it, and retry it when required. */
import { setMaxListeners } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { errorName, keepAlive } from '../../base/net/keep-alive.ts';
import { type Backoff, backoffMs, parseRetryAfter, pause } from '../../base/time/backoff.ts';
import { requestHeaders, type SignedPayload } from './payloads.ts';
import type { SendAttempt, SendTally } from './summary.ts';

interface SendJob {
  /** At least one; sent in order, starting over when `count` is greater. */
  payloads: readonly SignedPayload[];
  count: number;
  /** Requests per second; null: no limit, the next request follows each response. */
  rate: number | null;
  /** Maximum number of requests in flight. */
  concurrency: number;
  /** Whether to wait and retry after 429, 502 to 504 and lost connections. */
  wait: boolean;
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
  const pace = new SendSchedule(job.rate, performance.now());
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
  const sendOne = async (payload: SignedPayload): Promise<SendAttempt | null> => {
    const signed = payload.sign();
    const headers = requestHeaders(payload, signed.headers);
    let tries = 0;
    let refusals = 0;
    let notBeforeMs = 0;
    while (true) {
      await turn(notBeforeMs);
      if (stop.aborted) return null;
      const attempt = await post(headers, signed.body);
      if (attempt.kind === 'answered' && attempt.status === 429) refusals += 1;
      else tries += 1;
      if (stop.aborted && attempt.kind === 'failed') return null;
      const next = job.wait ? repetition(attempt, tries, refusals, Math.random()) : null;
      if (next === null) return attempt;
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

/** A request without a response in this time fails with ETIMEDOUT. */
const ANSWER_TIMEOUT_MS = 60_000;
/** No more than this of a problem document is kept in memory. */
const PROBLEM_CHARACTERS_MAX = 16_384;
const DETAIL_CHARACTERS_MAX = 300;

/** Posts a body. Never rejects. */
type Post = (headers: Record<string, string>, body: Buffer) => Promise<SendAttempt>;

/**
 * Creates a client for one address.
 *
 * Uses node:http instead of fetch: with 16 concurrent requests of 1 KiB on Node 20, a request costs 40 to 70 us of CPU, with
 * fetch 280 to 370 us. CPU that the sender uses is not available to a server on the same machine.
 * @param connectionsMax maximum number of open connections; further requests wait
 */
export function openClient(url: URL, connectionsMax: number) {
  const { agent, request } = keepAlive(url, connectionsMax);
  const post: Post = (headers, body) =>
    new Promise((resolve) => {
      const startMs = performance.now();
      const call = request(url, { method: 'POST', agent, headers, timeout: ANSWER_TIMEOUT_MS }, (response) => {
        // Read the whole body, so that the connection can be reused. A truncated body does not matter, because the status is known.
        let problem = '';
        const isProblem = response.headers['content-type']?.startsWith('application/problem+json') === true;
        if (isProblem)
          response.setEncoding('utf8').on('data', (text: string) => {
            if (problem.length < PROBLEM_CHARACTERS_MAX) problem += text;
          });
        else response.resume();
        response.once('error', () => {});
        response.once('close', () => resolve(answered(response, problem, performance.now() - startMs)));
      });
      call.once('timeout', () => call.destroy(Object.assign(new Error('no response in time'), { code: 'ETIMEDOUT' })));
      call.once('error', (error: NodeJS.ErrnoException) => resolve({ kind: 'failed', name: errorName(error) }));
      call.end(body);
    });
  return { post, close: () => agent.destroy() };
}

function answered(response: IncomingMessage, problem: string, latencyMs: number): SendAttempt {
  const retryAfterMs = parseRetryAfter(response.headers['retry-after'], Date.now());
  const detail = detailOf(problem);
  const status = response.statusCode ?? 0;
  const isStored = response.headers['x-weir-event-id'] !== undefined;
  return { kind: 'answered', status, isStored, retryAfterMs, latencyMs, ...(detail !== undefined && { detail }) };
}

/** Returns the `detail` of a problem document; undefined when the text is not one. */
function detailOf(problem: string): string | undefined {
  if (problem === '') return undefined;
  try {
    const { detail } = (JSON.parse(problem) ?? {}) as { detail?: unknown };
    return typeof detail === 'string' ? detail.slice(0, DETAIL_CHARACTERS_MAX) : undefined;
  } catch {
    return undefined;
  }
}

/** Maximum attempts of one request that end in 502 to 504 or a lost connection, including the first. Retries after 429 are not limited. */
export const triesMax = 10;

/** Delay between attempts without Retry-After. Ten attempts span about twenty seconds, which is longer than a restart. */
const backoff: Backoff = { firstMs: 200, maxMs: 5_000 };

/**
 * How long to wait before the request is repeated; null: the attempt is final. `forAll`: the server asked for the delay, so it applies to
 * every request.
 * @param tries attempts of this request that ended in 503 or a lost connection (a proxy says 502 or 504), including this one
 * @param refusals attempts of this request that ended in 429, including this one
 * @param random in [0, 1)
 */
export function repetition(attempt: SendAttempt, tries: number, refusals: number, random: number) {
  const { status = null, retryAfterMs = null } = attempt.kind === 'answered' ? attempt : {};
  const isRefused = status === 429;
  const isLost = status === null || status === 502 || status === 504;
  if (!isRefused && ((!isLost && status !== 503) || tries >= triesMax)) return null;
  const afterMs = retryAfterMs ?? backoffMs((isRefused ? refusals : tries) - 1, backoff, random);
  return { afterMs, forAll: !isLost };
}

/** When requests are due, independent of the responses. A delay that the server requests shifts the schedule, so that no burst follows. */
export class SendSchedule {
  readonly #intervalMs: number;
  #nextMs: number;
  #heldUntilMs: number;

  /** @param rate requests per second; null: no limit, the next request follows each response */
  constructor(rate: number | null, startMs: number) {
    this.#intervalMs = rate === null ? 0 : 1000 / rate;
    this.#nextMs = startMs;
    this.#heldUntilMs = startMs;
  }

  /** Returns the time at which the caller's request is due. Each call takes one slot of the schedule. */
  take(): number {
    const dueMs = this.#nextMs;
    this.#nextMs += this.#intervalMs;
    return dueMs;
  }

  /** No request is due before this time. */
  holdUntil(ms: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, ms);
    this.#nextMs = Math.max(this.#nextMs, ms);
  }

  /** True when a later delay covers the slot, so that the caller must take a new slot. */
  isHeldAt(ms: number): boolean {
    return ms < this.#heldUntilMs;
  }
}
