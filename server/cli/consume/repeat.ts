/** Retries a request until the server gives a final response. */
import { type Backoff, backoffMs } from '../../net/backoff.ts';
import { visibleLine } from '../../telemetry/visible.ts';
import { CommandError } from '../io.ts';
import { pause } from '../pause.ts';
import type { Answer } from './client.ts';

/** Delay between attempts without Retry-After. */
const backoff: Backoff = { firstMs: 200, maxMs: 10_000 };

/** Callbacks for failing attempts; must not throw. */
export interface Trouble {
  /** An attempt failed; the next one follows in `afterMs`. */
  waiting: (cause: string, afterMs: number) => void;
  /** A request was answered after failures. */
  over: () => void;
}

export interface Repetition {
  /** Address of the request, for the final error message. */
  base: string;
  /** Maximum attempts that end in a lost connection or a 5xx, including the first. */
  triesMax: number;
  trouble: Trouble;
  signal: AbortSignal;
}

/** `stopped`: the signal ended the request; whether the server received the last attempt is unknown. */
export type RepeatOutcome = { kind: 'answered'; status: number; document: unknown } | { kind: 'stopped' };

/**
 * Retries until the response is neither 429 nor 5xx: lost connections and server errors with back-off, 429 and 503 after the
 * Retry-After delay. Throws CommandError when no attempts are left.
 */
export async function repeat(attempt: () => Promise<Answer>, repetition: Repetition): Promise<RepeatOutcome> {
  const { base, triesMax, trouble, signal } = repetition;
  let tries = 0;
  for (let waits = 0; !signal.aborted; waits++) {
    const answer = await attempt();
    if (signal.aborted && answer.kind === 'failed') break;
    if (answer.kind === 'answered' && answer.status !== 429 && answer.status < 500) {
      trouble.over();
      return { kind: 'answered', status: answer.status, document: answer.document };
    }
    const cause = answer.kind === 'failed' ? answer.name : String(answer.status);
    if (cause !== '429') tries += 1;
    if (tries >= triesMax) throw new CommandError(`${base} did not answer: ${cause}, after ${tries} attempts.`);
    const retryAfterMs = answer.kind === 'answered' ? answer.retryAfterMs : null;
    const afterMs = retryAfterMs ?? backoffMs(waits, backoff, Math.random());
    trouble.waiting(cause, afterMs);
    await pause(afterMs, signal);
  }
  return { kind: 'stopped' };
}

const DETAIL_CHARACTERS_MAX = 300;

/** Error for a response that a retry cannot change. It includes the server's `detail` (RFC 9457). */
export function unexpected(base: string, path: string, status: number, document: unknown): CommandError {
  if (status === 404) return new CommandError(`${base} has no ${path}; give the base URL of Weir's API.`);
  const detail = (document as { detail?: unknown } | null)?.detail;
  const reason = typeof detail === 'string' ? `: ${visibleLine(detail).slice(0, DETAIL_CHARACTERS_MAX)}` : '.';
  return new CommandError(`${base} answered ${path} with ${status}${reason}`);
}
