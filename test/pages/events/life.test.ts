/** The life of an event: a line of its receipt, and one for each agent. */
import { expect, test } from 'vitest';
import type { Attempt } from '../../../server/model/events.ts';
import { lifeOf } from '../../../server/pages/events/life.ts';

const receivedMs = Date.parse('2026-01-01T12:00:00Z');
const event = { received_at: new Date(receivedMs).toISOString() };
const after = (ms: number) => new Date(receivedMs + ms).toISOString();

const attempt = (
  leasedMs: number | null,
  outcome: Attempt['outcome'],
  endedMs: number | null,
  reason: string | null = null,
): Attempt => ({
  outcome,
  lease: 1,
  leased_at: leasedMs === null ? null : after(leasedMs),
  lease_seconds: 30,
  agent_address: null,
  at: endedMs === null ? null : after(endedMs),
  duration_ms: null,
  reason,
  retry_seconds: null,
});
const delivery = (id: string, state: string) => ({ id, agent_id: `agent-${id}`, state });
const line = (steps: { word: string; after: string }[]) =>
  steps.map(({ word, after }) => [word, after].filter(Boolean).join(' '));
const lines = ({ first, agents }: ReturnType<typeof lifeOf>) => [
  line(first),
  ...agents.map(({ steps }) => line(steps)),
];

test('has the steps of each agent, with the time since the receipt', () => {
  const life = lifeOf({
    event,
    verified: true,
    deliveries: [delivery('a', 'done'), delivery('b', 'done')],
    attempts: new Map([
      ['a', [attempt(120, 'rejected', 1_500, 'timeout'), attempt(6_500, 'acknowledged', 6_900)]],
      ['b', [attempt(400, 'acknowledged', 3_700_000)]],
    ]),
  });
  expect(lines(life)).toEqual([
    ['Received', 'Verified', 'On disk'],
    ['Fetched +120 ms', 'Failed +1.5 s', 'Retry 1 +6.5 s', 'Acknowledged +6.9 s'],
    ['Fetched +400 ms', 'Acknowledged +1 h 1 min'],
  ]);
  expect(life.agents[0]!.steps[1]).toMatchObject({ note: 'timeout', tone: 'bad' });
});

test('ends with what has yet to happen, and says nothing about a signature that is not checked', () => {
  const life = lifeOf({
    event,
    verified: false,
    deliveries: [delivery('a', 'pending'), delivery('b', 'pending'), delivery('c', 'leased')],
    attempts: new Map([
      ['b', [attempt(100, 'expired', 200)]],
      ['c', [attempt(300, null, null)]],
    ]),
  });
  expect(lines(life)).toEqual([
    ['Received', 'On disk'],
    ['Not fetched yet'],
    ['Fetched +100 ms', 'Lease expired +200 ms', 'Waits for a retry'],
    ['Fetched +300 ms', 'In progress'],
  ]);
});

test('is never before the receipt, although the clocks of two machines differ', () => {
  const life = lifeOf({
    event,
    verified: false,
    deliveries: [delivery('a', 'done')],
    attempts: new Map([['a', [attempt(-5, 'acknowledged', 1)]]]),
  });
  expect(lines(life)[1]).toEqual(['Fetched +0.0 ms', 'Acknowledged +1.0 ms']);
});

test.each([
  [6, 0],
  [7, 2],
])('with %i failed attempts leaves out the first %i steps', (count, leftOut) => {
  const attempts = Array.from({ length: count }, (_, place) => attempt(place * 10, 'rejected', place * 10 + 5));
  const life = lifeOf({
    event,
    verified: true,
    deliveries: [delivery('a', 'dead')],
    attempts: new Map([['a', attempts]]),
  });
  expect([life.agents[0]!.steps.length, life.agents[0]!.leftOut]).toEqual([12, leftOut]);
});
