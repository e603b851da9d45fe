/** The life of an event as a line of steps. */
import { expect, onTestFinished, test } from 'vitest';
import type { Attempt } from '../../../server/model/attempts.ts';
import { lifeOf } from '../../../server/pages/events/life.ts';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';

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
const line = (life: ReturnType<typeof lifeOf>) =>
  life.steps.map(({ word, agentId, after }) => [word, agentId, after].filter(Boolean).join(' '));

test('has the steps of all agents in the order of time, each with the time since the receipt', () => {
  const life = lifeOf({
    event,
    verified: true,
    deliveries: [delivery('a', 'done'), delivery('b', 'done')],
    attempts: new Map([
      ['a', [attempt(120, 'rejected', 1_500, 'timeout'), attempt(6_500, 'acknowledged', 6_900)]],
      ['b', [attempt(400, 'acknowledged', 3_700_000)]],
    ]),
  });
  expect(line(life)).toEqual([
    'Received',
    'Verified',
    'On disk',
    'Fetched agent-a +120 ms',
    'Fetched agent-b +400 ms',
    'Failed agent-a +1.5 s',
    'Retry 1 agent-a +6.5 s',
    'Acknowledged agent-a +6.9 s',
    'Acknowledged agent-b +1 h 1 min',
  ]);
  expect(life.steps[5]).toMatchObject({ note: 'timeout', tone: 'bad' });
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
  expect(line(life)).toEqual([
    'Received',
    'On disk',
    'Fetched agent-b +100 ms',
    'Lease expired agent-b +200 ms',
    'Fetched agent-c +300 ms',
    'Not fetched yet agent-a',
    'Waits for a retry agent-b',
    'In progress agent-c',
  ]);
});

test('is never before the receipt, although the clocks of two machines differ', () => {
  const life = lifeOf({
    event,
    verified: false,
    deliveries: [delivery('a', 'done')],
    attempts: new Map([['a', [attempt(-5, 'acknowledged', 1)]]]),
  });
  expect(line(life).slice(2)).toEqual(['Fetched agent-a +0.0 ms', 'Acknowledged agent-a +1.0 ms']);
});

test.each([
  [21, 0],
  [22, 1],
])('with %i acknowledged agents leaves out %i steps in the middle', (agents, leftOut) => {
  const ids = Array.from({ length: agents }, (_, place) => String(place));
  const life = lifeOf({
    event,
    verified: true,
    deliveries: ids.map((id) => delivery(id, 'filtered')),
    attempts: new Map(ids.map((id, place) => [id, [attempt(null, 'filtered', place)]])),
  });
  expect([life.steps.length, life.leftOut]).toEqual([24, leftOut]);
  expect(life.steps.at(-1)!.agentId).toBe(`agent-${agents - 1}`);
});

test('is on the page of the event', async () => {
  const app = await startAgentApp();
  onTestFinished(() => app.stop());
  const { cookie } = await addPerson(app, 'viewer');
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const id = await send(webhook);
  const { deliveries } = (await agent.post('claim', {})).body;
  await agent.post('ack', { receipts: [deliveries[0].receipt] });
  const page = await (await fetch(`${app.url}/events/${id}`, { headers: { cookie } })).text();
  const words = [
    ...page
      .split('<ol class="life"')[1]!
      .split('</ol>')[0]!
      .matchAll(/<b>([^<]*)</g),
  ].map(([, word]) => word);
  expect(words).toEqual(['Received', 'Verified', 'On disk', 'Fetched', 'Acknowledged']);
});
