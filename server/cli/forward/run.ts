/** Runs an agent that forwards its deliveries. While the target does not answer, nothing is claimed. */

import { pause } from '../../base/time/backoff.ts';
import { type Agent, type Handler, Retry, type RunCounts, type RunOptions } from '../../deliver/client/index.ts';
import { Breaker, FAILURES_MAX } from './breaker.ts';
import { type Attempted, forwarder } from './forward.ts';
import type { Signing } from './request.ts';
import type { Target } from './target.ts';

/** While nothing is claimed, the agent makes a request at this interval: the server removes a temporary agent that is not seen. */
const SEEN_EVERY_MS = 600_000;

export interface ForwardingParts {
  agent: Pick<Agent, 'run' | 'me'>;
  target: Target;
  signingOf: (webhookId: string) => Promise<Signing>;
  attempted: (attempt: Attempted) => void;
  /** Prints a message; must not throw. */
  report: (line: string) => void;
  /** Ends the run as in RunOptions. */
  stop: AbortSignal;
  counts: RunCounts;
  /** Tests pass their own clock. */
  wait?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/**
 * Forwards deliveries until `stop` aborts or `max` or `once` is reached. After FAILURES_MAX failures in a row the run is drained, the target is probed
 * with back-off, one delivery is tried, and the next run begins. Rejects as Agent.run.
 */
export async function runForwarding(
  parts: ForwardingParts,
  options: Omit<RunOptions, 'signal' | 'counts'>,
): Promise<void> {
  const { agent, target, report, stop, counts } = parts;
  const { max = Number.POSITIVE_INFINITY, once = false } = options;
  const breaker = new Breaker();
  const forward = forwarder({ ...parts, breaker });
  const settled = () => counts.done + counts.failed;

  while (!stop.aborted && settled() < max) {
    const isTrial = breaker.is('trial');
    const round = new AbortController();
    const endRound = () => round.abort();
    stop.addEventListener('abort', endRound, { once: true });
    let problem = '';
    const handler: Handler = async (delivery, { signal }) => {
      const verdict = await forward(delivery, signal);
      if (breaker.is('open')) endRound();
      if (verdict.kind === 'done') return;
      problem = verdict.problem;
      const { delaySeconds } = verdict;
      throw new Retry(verdict.reason, delaySeconds === undefined ? {} : { delaySeconds });
    };
    const bounds = isTrial ? { concurrency: 1, max: settled() + 1 } : { max };
    try {
      await agent.run(handler, { ...options, ...bounds, counts, signal: round.signal });
    } finally {
      stop.removeEventListener('abort', endRound);
    }
    if (once) return;
    if (isTrial && breaker.is('closed')) report(`${target.name} answers again; deliveries are claimed.`);
    if (!breaker.is('open')) continue;
    if (!isTrial)
      report(
        `${target.name}: ${FAILURES_MAX} failures in a row, the last one ${problem}. No more deliveries are claimed until it answers.`,
      );
    await untilReachable(parts, breaker);
  }
}

async function untilReachable({ agent, target, stop, wait = pause }: ForwardingParts, breaker: Breaker): Promise<void> {
  let seenMs = performance.now();
  while (!stop.aborted) {
    await wait(breaker.nextProbeMs(Math.random()), stop);
    if (performance.now() - seenMs >= SEEN_EVERY_MS) {
      seenMs = performance.now();
      // A credential that is refused, for example, ends the next run with the reason.
      await agent.me({ signal: stop }).catch(() => {});
    }
    if (!stop.aborted && (await target.probe())) return breaker.tryOne();
  }
}
