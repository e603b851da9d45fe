/** The life of an event as one line: from its receipt to the acknowledgement of each agent, with the times. */
import type { Attempt } from '../../model/attempts.ts';
import { duration } from '../show.ts';

/** Steps that are shown; of more, those in the middle are left out. */
const STEPS_MAX = 24;

interface Step {
  /** ISO; null: Weir does not know when, or the step has not happened yet. */
  at: string | null;
  word: string;
  agentId: string | null;
  tone: '' | 'good' | 'bad' | 'warn';
  /** Time since the receipt, such as “+1.2 s”; '' when it is not known. */
  after: string;
  note: string;
}

interface Life {
  event: { received_at: string };
  /** Whether the webhook checks signatures. */
  verified: boolean;
  deliveries: readonly { id: string; agent_id: string; state: string }[];
  attempts: ReadonlyMap<string, readonly Attempt[]>;
}

/** Steps in the order of time; `left out` counts those that are not shown, which stand behind the first half. */
export function lifeOf({ event, verified, deliveries, attempts }: Life): { steps: Step[]; leftOut: number } {
  const receivedMs = Date.parse(event.received_at);
  const stepOf = (at: string | null, word: string, more: Partial<Step> = {}): Step => ({
    at,
    word,
    agentId: null,
    tone: '',
    // Clocks of two machines differ.
    after: at === null ? '' : `+${duration(Math.max(0, Date.parse(at) - receivedMs))}`,
    note: '',
    ...more,
  });
  const first = [
    stepOf(event.received_at, 'Received', { after: '' }),
    ...(verified ? [stepOf(null, 'Verified', { tone: 'good' })] : []),
    stepOf(null, 'On disk', { tone: 'good', note: 'then answered 202' }),
  ];
  const happened: Step[] = [];
  const open: Step[] = [];
  for (const { id, agent_id: agentId, state } of deliveries) {
    const tried = attempts.get(id) ?? [];
    let fetches = 0;
    for (const { leased_at, at, outcome, reason } of tried) {
      if (leased_at !== null)
        happened.push(stepOf(leased_at, fetches++ === 0 ? 'Fetched' : `Retry ${fetches - 1}`, { agentId }));
      if (outcome !== null)
        happened.push(stepOf(at, ends[outcome].word, { agentId, tone: ends[outcome].tone, note: reason ?? '' }));
    }
    if (state === 'pending')
      open.push(stepOf(null, fetches === 0 ? 'Not fetched yet' : 'Waits for a retry', { agentId }));
    if (state === 'leased' && tried.at(-1)?.outcome === null)
      open.push(stepOf(null, 'In progress', { agentId, tone: 'warn' }));
  }
  happened.sort((one, other) => Date.parse(one.at!) - Date.parse(other.at!));
  const steps = [...first, ...happened, ...open];
  const leftOut = Math.max(0, steps.length - STEPS_MAX);
  steps.splice(STEPS_MAX / 2, leftOut);
  return { steps, leftOut };
}

const ends: Record<NonNullable<Attempt['outcome']>, Pick<Step, 'word' | 'tone'>> = {
  acknowledged: { word: 'Acknowledged', tone: 'good' },
  rejected: { word: 'Failed', tone: 'bad' },
  expired: { word: 'Lease expired', tone: 'bad' },
  revoked: { word: 'Agent revoked', tone: 'bad' },
  released: { word: 'Released', tone: 'warn' },
  replayed: { word: 'Replayed', tone: '' },
  dismissed: { word: 'Dismissed', tone: '' },
  restored: { word: 'Dismissal undone', tone: '' },
  filtered: { word: 'Excluded by its filter', tone: '' },
};
