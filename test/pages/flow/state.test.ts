import { expect, test } from 'vitest';
import { agentState } from '../../../server/pages/flow/state.ts';

const NOW_MS = Date.UTC(2026, 0, 31, 12, 0, 0);
const ago = (seconds: number) => new Date(NOW_MS - seconds * 1_000).toISOString();
const activity = {
  agent_id: '',
  last_seen_from: null,
  previous_credential_used_at: null,
  filters: [],
  dead: 0,
  working: false,
  paused: false,
  paused_at: null,
};

test.each([
  ['never seen', '', null, null, false],
  ['never seen', 'bad', null, 301, false],
  ['idle', 'good', 180, null, false],
  ['working', 'good', 60, null, true],
  ['stopped', 'warn', 181, null, false],
  ['stopped', 'bad', 181, 10, true],
])('an agent is %s (%s): seen %s s ago, a delivery waits for %s s, working %s', (word, tone, seen, waits, working) => {
  const does = {
    ...activity,
    working,
    last_seen_at: seen === null ? null : ago(seen),
    waiting_since: waits === null ? null : ago(waits),
  };
  expect(agentState(does, NOW_MS)).toMatchObject({ word, tone, late: (waits ?? 0) > 300 ? 'bad' : '' });
});

test('a paused agent is paused, whatever waits', () => {
  const does = { ...activity, last_seen_at: ago(999), waiting_since: ago(999), paused: true, paused_at: ago(60) };
  expect(agentState(does, NOW_MS)).toMatchObject({ word: 'paused', tone: 'warn', late: '' });
});

test.each([
  ['failing', 'bad', '60/0/3'],
  ['failing', 'bad', '960/0/3 60/0/0'],
  ['working', 'good', '960/1/0 60/0/3'],
  ['working', 'good', '1800/0/3 60/0/0'],
  ['failing 10 %', 'warn', '60/18/2'],
  ['working', 'good', '60/17/2'],
  ['working', 'good', '60/91/9'],
  ['failing 27 %', 'warn', '3599/0/27 60/73/0'],
  ['working', 'good', '3600/0/27 60/73/0'],
])('an agent is %s (%s) after quarters that began s ago, acknowledged and failed: %s', (word, tone, counts) => {
  const quarters = counts.split(' ').map((quarter) => {
    const [seconds, acknowledged, failed] = quarter.split('/').map(Number) as [number, number, number];
    return { at: ago(seconds), acknowledged, failed };
  });
  const does = { ...activity, working: true, last_seen_at: ago(60), waiting_since: null, quarters };
  expect(agentState(does, NOW_MS)).toMatchObject({ word, tone });
});

test.each([
  ['dead letters', 361, 1],
  ['working', 361, 0],
  ['working', 0, 1],
])('an agent is %s with %i dead letters and %i failed attempts in the hour', (word, dead, failed) => {
  const quarters = [{ at: ago(60), acknowledged: 100, failed }];
  const does = { ...activity, working: true, dead, last_seen_at: ago(60), waiting_since: null, quarters };
  expect(agentState(does, NOW_MS).word).toBe(word);
});
