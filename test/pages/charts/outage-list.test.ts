import { expect, test } from 'vitest';
import { bandsOf } from '../../../server/pages/charts/traffic.ts';

const [from, to] = [Date.parse('2026-11-25T00:00:00Z'), Date.parse('2026-11-25T10:00:00Z')];
const outage = (began_at: string, ended_at: string) => ({
  id: '',
  machine: '',
  refused: 0,
  spooled: 0,
  began_at: `2026-11-${began_at}Z`,
  ended_at: `2026-11-${ended_at}Z`,
});

test.each([
  ['before the chart', '24T01:00:00', '24T02:00:00', []],
  ['into the chart', '24T23:00:00', '25T01:00:00', [{ from: 0, to: 0.1 }]],
  ['within the chart', '25T05:00:00', '25T07:30:00', [{ from: 0.5, to: 0.75 }]],
  ['after its last point', '25T10:05:00', '25T10:06:00', [{ from: 1, to: 1 }]],
])('an outage %s', (_, began, ended, bands) => {
  expect(bandsOf([outage(began, ended)], [from, to])).toEqual(bands);
});
