/** The life of an event: its receipt, and a row for each agent from the first claim to the acknowledgement, with the times. */
import type { Attempt } from '../../model/events.ts';
import { duration } from '../show.ts';

/** Limit on the steps of an agent that are shown: with more, the first ones are left out. */
const STEPS_MAX = 12;

interface Step {
  /** ISO; null: Weir does not know when, or the step has not happened yet. */
  at: string | null;
  word: string;
  tone: '' | 'good' | 'bad' | 'warn';
  /** Time since the receipt, such as “+1.2 s”; '' when it is not known. */
  after: string;
  note: string;
}

interface Life<Delivery> {
  event: { received_at: string };
  /** Whether the webhook checks signatures. */
  verified: boolean;
  deliveries: readonly Delivery[];
  attempts: ReadonlyMap<string, readonly Attempt[]>;
}

/** The steps before the agents, and the steps of each agent. `leftOut`: number of first steps of the agent that are not shown. */
export function lifeOf<Delivery extends { id: string; state: string }>(life: Life<Delivery>) {
  const { event, verified, deliveries, attempts } = life;
  const receivedMs = Date.parse(event.received_at);
  const stepOf = (at: string | null, word: string, more: Partial<Step> = {}): Step => ({
    at,
    word,
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
  const agents = deliveries.map((delivery) => {
    const tried = attempts.get(delivery.id) ?? [];
    const steps: Step[] = [];
    let fetches = 0;
    for (const { leased_at, at, outcome, reason } of tried) {
      if (leased_at !== null) steps.push(stepOf(leased_at, fetches++ === 0 ? 'Fetched' : `Retry ${fetches - 1}`));
      if (outcome !== null)
        steps.push(stepOf(at, ends[outcome].word, { tone: ends[outcome].tone, note: reason ?? '' }));
    }
    if (delivery.state === 'pending') steps.push(stepOf(null, fetches === 0 ? 'Not fetched yet' : 'Waits for a retry'));
    if (delivery.state === 'leased' && tried.at(-1)?.outcome === null)
      steps.push(stepOf(null, 'In progress', { tone: 'warn' }));
    const leftOut = Math.max(0, steps.length - STEPS_MAX);
    return { delivery, steps: steps.slice(leftOut), leftOut };
  });
  return { first, agents };
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
