/** Forwards one delivery to the target, and decides what becomes of it. */
import type { Breaker } from './breaker.ts';
import { type ForwardedDelivery, forwardRequest, type Signing } from './request.ts';
import type { Forwarded, Target } from './target.ts';

/** A longer Retry-After of the target is shortened to this. */
const DELAY_SECONDS_MAX = 3_600;
const LOCATION_CHARACTERS_MAX = 200;

/** `failed`: attempted again after `delaySeconds`; undefined: the server increases the delay with each attempt. */
type Verdict = { kind: 'done' } | { kind: 'failed'; problem: string; reason: string; delaySeconds: number | undefined };

/** One attempt, for a line of progress. */
export interface Attempted {
  delivery: ForwardedDelivery;
  /** Null: no response. */
  status: number | null;
  /** What was wrong; null when the target answered 2xx. */
  problem: string | null;
  ms: number;
}

interface ForwardParts {
  target: Target;
  breaker: Breaker;
  /** How the webhook of an event is signed. Rejects when that is unknown, or a key is missing. */
  signingOf: (webhookId: string) => Promise<Signing>;
  /** Called after each attempt; must not throw. */
  attempted: (attempt: Attempted) => void;
}

/** Never rejects. */
type Forward = (delivery: ForwardedDelivery, signal: AbortSignal) => Promise<Verdict>;

export function forwarder({ target, breaker, signingOf, attempted }: ForwardParts): Forward {
  return async (delivery, signal) => {
    const startMs = performance.now();
    const result = await send(delivery, signal);
    const problem = problemOf(result);
    const status = result.kind === 'answered' ? result.status : null;
    attempted({ delivery, status, problem, ms: performance.now() - startMs });
    // A request that this program stopped or did not send says nothing about the target.
    if (status !== null && !isOutage(status)) breaker.succeeded();
    else if (!signal.aborted && result.kind !== 'unsigned') breaker.failed();
    if (problem === null) return { kind: 'done' };
    return { kind: 'failed', problem, reason: `${target.name}: ${problem}`, delaySeconds: delayOf(result) };
  };

  async function send(delivery: ForwardedDelivery, signal: AbortSignal) {
    try {
      const signing = await signingOf(delivery.event.webhook_id);
      return await target.send(forwardRequest(delivery, signing, target.url, Date.now()), signal);
    } catch (error) {
      return { kind: 'unsigned', why: (error as Error).message } as const;
    }
  }
}

type Result = Forwarded | { kind: 'unsigned'; why: string };

/** The target takes nothing at present. Another refusal, such as 400 or 404, concerns one event: the other events may be taken. */
function isOutage(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

function problemOf(result: Result): string | null {
  if (result.kind === 'unsigned') return `not signed: ${result.why}`;
  if (result.kind === 'failed') return result.name;
  const { status, location } = result;
  if (status >= 200 && status < 300) return null;
  if (status < 300 || status >= 400 || location === null) return String(status);
  return `${status} to ${location.slice(0, LOCATION_CHARACTERS_MAX)}, redirects are not followed`;
}

function delayOf(result: Result): number | undefined {
  if (result.kind !== 'answered' || result.retryAfterMs === null) return undefined;
  return Math.min(DELAY_SECONDS_MAX, Math.ceil(result.retryAfterMs / 1000));
}
