/** What an agent does, in a word, for the list of agents and its page. */
import { HOUR_MS } from '../../base/time/durations.ts';
import type { BodyOf } from '../../manage/api/operations.ts';
import { PENDING_SECONDS } from '../../model/conditions.ts';

type Activity = BodyOf<'listAgentActivity'>['items'][number];

/** An agent without a request for this long has stopped: a claim waits for 30 s at most, and Weir notes requests to the minute. */
const STOPPED_MS = 180_000;
/** A delivery that waits for this long is late: the default of ALERT_PENDING_SECONDS. */
const LATE_MS = PENDING_SECONDS * 1_000;

/** An agent fails when it acknowledged nothing in this time, and attempts failed: the current quarter of an hour and the one before. */
const FAILING_MS = 1_800_000;
/** From this share of failed attempts in an hour on, an agent fails in part, if there are at least ATTEMPTS_MIN attempts. */
const FAILED_SHARE_MIN = 0.1;
const ATTEMPTS_MIN = 20;

/** Attempts in the quarters of an hour that began within `spanMs`. */
function attemptsIn({ quarters = [] }: Activity, spanMs: number, nowMs: number) {
  const recent = quarters.filter(({ at }) => nowMs - Date.parse(at) < spanMs);
  const sum = (name: 'acknowledged' | 'failed') => recent.reduce((total, one) => total + one[name], 0);
  return { acknowledged: sum('acknowledged'), failed: sum('failed') };
}

export type Tone = 'good' | 'warn' | 'bad' | '';
interface State {
  word: string;
  tone: Tone;
  /** What is wrong as a sentence, and what to do. */
  cause?: readonly [text: string, fix: string];
}

const REASONS = 'The reasons of failed attempts are with its deliveries.';

/** How an agent fails; null: it does not. Its dead letters count as new if an attempt failed within the hour. */
function failureOf(does: Activity, nowMs: number): State | null {
  const newest = attemptsIn(does, FAILING_MS, nowMs);
  if (newest.failed > 0 && newest.acknowledged === 0)
    return { word: 'failing', tone: 'bad', cause: ['Every attempt of the last minutes failed.', REASONS] };
  const { acknowledged, failed } = attemptsIn(does, HOUR_MS, nowMs);
  const share = failed / (acknowledged + failed);
  const percent = `${Math.round(100 * share)} %`;
  if (acknowledged + failed >= ATTEMPTS_MIN && share >= FAILED_SHARE_MIN)
    return {
      word: `failing ${percent}`,
      tone: 'warn',
      cause: [`${percent} of the attempts in the last hour failed.`, REASONS],
    };
  if (failed === 0 || does.dead === 0) return null;
  return { word: 'dead letters', tone: 'warn', cause: ['The agent has new dead letters.', REASONS] };
}

/**
 * What an agent does, in a word. `isLate`: its oldest pending delivery waits for too long.
 * @param does undefined: its activity could not be read
 */
export function agentState(does: Activity | undefined, nowMs: number): State & { isLate: boolean } {
  if (does === undefined) return { word: 'active', tone: '', isLate: false };
  if (does.paused) return { word: 'paused', tone: 'warn', isLate: false };
  const isLate = does.waiting_since !== null && nowMs - Date.parse(does.waiting_since) > LATE_MS;
  if (does.last_seen_at === null) {
    const cause = ['The agent has never asked for deliveries.', 'Start it with its credential.'] as const;
    return { word: 'never seen', tone: isLate ? 'bad' : '', isLate, cause };
  }
  if (nowMs - Date.parse(does.last_seen_at) > STOPPED_MS) {
    const cause = ['The agent has stopped.', 'Start it; its own log says why it stopped.'] as const;
    return { word: 'stopped', tone: does.waiting_since === null ? 'warn' : 'bad', isLate, cause };
  }
  return { ...(failureOf(does, nowMs) ?? { word: does.working ? 'working' : 'idle', tone: 'good' }), isLate };
}
