/** What an agent does, in a word, for the list of agents and its page. */
import type { Success } from '../../manage/api/operation.ts';
import type { Operations } from '../../manage/api/operations.ts';
import { PENDING_SECONDS } from '../../model/conditions.ts';

type Activity = Success<Operations['listAgentActivity']['answers']>['body']['items'][number];

/** An agent without a request for this long has stopped: a claim waits for 30 s at most, and Weir notes requests to the minute. */
const STOPPED_MS = 180_000;
/** A delivery that waits for this long is late: the default of ALERT_PENDING_SECONDS. */
const LATE_MS = PENDING_SECONDS * 1_000;

/** An agent fails when it acknowledged nothing in this time, and attempts failed: the current quarter of an hour and the one before. */
const FAILING_MS = 1_800_000;

function fails({ quarters = [] }: Activity, nowMs: number): boolean {
  const recent = quarters.filter(({ at }) => nowMs - Date.parse(at) < FAILING_MS);
  return recent.some(({ failed }) => failed > 0) && recent.every(({ acknowledged }) => acknowledged === 0);
}

/**
 * What an agent does, in a word, and the tones of its age and of its oldest pending delivery.
 * @param does null: its activity could not be read
 */
export function agentState(does: Activity | undefined, nowMs: number) {
  const ageMs = (iso: string | null | undefined) => (iso == null ? 0 : nowMs - Date.parse(iso));
  const late = ageMs(does?.waiting_since) > LATE_MS ? 'bad' : '';
  if (does === undefined) return { word: 'active', tone: '', late };
  if (does.last_seen_at === null) return { word: 'never seen', tone: late, late };
  if (ageMs(does.last_seen_at) > STOPPED_MS)
    return { word: 'stopped', tone: does.waiting_since === null ? 'warn' : 'bad', late };
  if (fails(does, nowMs)) return { word: 'failing', tone: 'bad', late };
  return { word: does.working ? 'working' : 'idle', tone: 'good', late };
}
