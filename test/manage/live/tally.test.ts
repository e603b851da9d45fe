import { describe, expect, test } from 'vitest';
import { secondsBuckets } from '../../../server/base/telemetry/metrics.ts';
import { type Gauges, gaugeNames, type Sample, type Totals, totalNames } from '../../../server/manage/live/counters.ts';
import { quantile, Tally } from '../../../server/manage/live/tally.ts';

const noTotals = Object.fromEntries(totalNames.map((name) => [name, 0])) as Totals;
const noGauges = Object.fromEntries(gaugeNames.map((name) => [name, 0])) as Gauges;
/** Bucket 6 ends at 10 ms and begins at 5. */
const tenMs = secondsBuckets.indexOf(0.01);

function sample(totals: Partial<Totals> = {}, gauges: Partial<Gauges> = {}, commits = 0): Sample {
  return {
    startedMs: 0,
    totals: { ...noTotals, ...totals },
    commitDurations: Array.from({ length: secondsBuckets.length + 1 }, (_, i) => (i === tenMs ? commits : 0)),
    gauges: { ...noGauges, ...gauges },
    threads: 1,
    database: 'up',
    spools: false,
    rateLimitStore: 'ok',
    leaving: false,
    unknownUrls: [],
  };
}

describe('a second', () => {
  test('is the sum over all processes since the previous one', () => {
    const tally = new Tally(0);
    tally.take(1, sample({ accepted: 10, rejected: 1 }), 1_000);
    tally.take(2, sample({ accepted: 5, limited: 2 }), 1_000);
    expect(tally.second(1_000, null).second).toMatchObject({
      accepted: 15,
      rejected: 1,
      limited: 2,
      duration_ms: 1_000,
    });
    tally.take(1, sample({ accepted: 13, rejected: 1 }), 2_000);
    const { second, totals } = tally.second(2_005, null);
    expect(second).toMatchObject({ accepted: 3, rejected: 0, limited: 0, duration_ms: 1_005 });
    expect(totals).toMatchObject({ accepted: 18, rejected: 1, limited: 2 });
  });

  test('has the unknown URLs of all processes, those of the same client and path together', () => {
    const tally = new Tally(0);
    const url = { client: '192.0.2.1', path: '/in/gone', requests: 3, last_at: '2026-01-01T00:00:02.000Z' };
    tally.take(1, { ...sample(), unknownUrls: [url] }, 1_000);
    const other = { ...url, path: '/in/other', requests: 4 };
    tally.take(2, { ...sample(), unknownUrls: [other, { ...url, last_at: '2026-01-01T00:00:01.000Z' }] }, 1_000);
    tally.take(3, sample(), 1_000);
    expect(tally.second(1_000, null).unknown_urls).toEqual([{ ...url, requests: 6 }, other]);
  });

  test('never falls: the counts of an ended process are kept, whichever process replaces it', () => {
    const tally = new Tally(0);
    tally.take(1, sample({ accepted: 100 }), 1_000);
    tally.take(2, sample({ accepted: 7 }), 1_000);
    tally.second(1_000, null);
    tally.take(1, sample({ accepted: 110 }), 2_000);
    tally.ended(1);
    expect(tally.second(2_000, null).second.accepted).toBe(10);
    tally.take(3, sample({ accepted: 2 }), 3_000);
    const live = tally.second(3_000, null);
    expect([live.second.accepted, live.totals.accepted]).toEqual([2, 119]);
    expect(live.processes.map(({ pid }) => pid)).toEqual([2, 3]);
  });

  test('of a process that ended before its first report has none of its counts', () => {
    const tally = new Tally(0);
    tally.ended(1);
    expect(tally.second(1_000, null).totals).toEqual(noTotals);
  });

  test('catches up with a process that did not report for a while', () => {
    const tally = new Tally(0);
    tally.take(1, sample({ accepted: 1 }), 1_000);
    tally.second(1_000, null);
    for (const ms of [2_000, 3_000]) expect(tally.second(ms, null).second.accepted).toBe(0);
    tally.take(1, sample({ accepted: 31 }), 4_000);
    expect(tally.second(4_000, null).second.accepted).toBe(30);
  });

  test('estimates the commit durations of this second only', () => {
    const tally = new Tally(0);
    expect(tally.second(500, null).second).toMatchObject({ commits: 0, commit_p50_ms: null, commit_p99_ms: null });
    tally.take(1, sample({}, {}, 100), 1_000);
    expect(tally.second(1_000, null).second).toMatchObject({ commits: 100, commit_p50_ms: 7.5, commit_p99_ms: 9.95 });
    expect(tally.second(2_000, null).second).toMatchObject({ commits: 0, commit_p50_ms: null });
  });

  test('sums gauges, except the lag, of which it has the largest', () => {
    const tally = new Tally(0);
    tally.take(1, sample({}, { connections: 3, event_loop_lag_ms: 11, resident_bytes: 100 }), 1_000);
    tally.take(2, sample({}, { connections: 4, event_loop_lag_ms: 30, resident_bytes: 50 }), 1_000);
    expect(tally.second(1_000, null).second).toMatchObject({
      connections: 7,
      event_loop_lag_ms: 30,
      resident_bytes: 150,
    });
  });
});

describe('a process', () => {
  test('is listed with its share of the second', () => {
    const tally = new Tally(0);
    tally.take(1, sample({ accepted: 4 }), 1_000);
    expect(tally.second(1_000, null).processes).toMatchObject([{ pid: 1, accepted: 4, state: 'serving' }]);
    tally.take(1, sample({ accepted: 6 }), 2_000);
    expect(tally.second(2_000, null).processes).toMatchObject([{ pid: 1, accepted: 2 }]);
  });

  test.each([
    ['serving', 3_000, false],
    ['unresponsive', 3_001, false],
    ['draining', 10, true],
  ] as const)('is %s %d ms after its last report', (state, ms, leaving) => {
    const tally = new Tally(0);
    tally.take(1, { ...sample(), leaving }, 1_000);
    expect(tally.second(1_000 + ms, null).processes[0]!.state).toBe(state);
  });
});

test.each([
  [['up', 'up'], 'up'],
  [['up', 'down'], 'up'],
  [['down', 'down'], 'down'],
  [[], 'down'],
] as const)('the database is %j for the processes, so the total is %s', (states, expected) => {
  const tally = new Tally(0);
  states.forEach((database, pid) => {
    tally.take(pid, { ...sample(), database }, 1_000);
  });
  expect(tally.second(1_000, null).database).toBe(expected);
});

describe('a database that does not answer the primary', () => {
  const secondAfter = (sampled: Partial<Sample>) => {
    const tally = new Tally(0);
    tally.take(1, sample(), 500);
    tally.second(1_000, null);
    tally.take(1, { ...sample(), ...sampled }, 1_500);
    const { database, processes } = tally.second(2_000, null, false);
    return [database, processes[0]!.database];
  };

  test('is down, although every connection looks open', () => {
    expect(secondAfter({})).toEqual(['down', 'down']);
  });

  test('is up if it has just committed', () => {
    const { commitDurations } = sample();
    expect(secondAfter({ commitDurations: commitDurations.with(0, commitDurations[0]! + 1) })).toEqual(['up', 'up']);
  });
});

test('deliveries are counted while any process has a stream', () => {
  const tally = new Tally(0);
  tally.take(1, sample(), 1_000);
  expect(tally.watched).toBe(false);
  tally.take(2, sample({}, { streams: 1 }), 1_000);
  expect(tally.watched).toBe(true);
  tally.ended(2);
  expect(tally.watched).toBe(false);
});

const bounds = [1, 2, 4];

test.each([
  ['nothing observed', [0, 0, 0, 0], 0.5, null],
  ['the middle of one bucket', [0, 10, 0, 0], 0.5, 1.5],
  ['the first bucket begins at zero', [10, 0, 0, 0], 0.5, 0.5],
  ['the end of a bucket', [5, 5, 0, 0], 0.5, 1],
  ['the last share', [5, 0, 5, 0], 1, 4],
  ['empty buckets are passed over', [0, 0, 4, 0], 0.25, 2.5],
  ['beyond the largest bound', [0, 0, 0, 3], 0.99, 4],
  ['no share', [0, 3, 0, 0], 0, 1],
])('quantile: %s', (_what, counts, share, expected) => {
  expect(quantile(bounds, counts, share)).toBe(expected);
});

test('events are spooled while the database is down and a process has room for them', () => {
  const spooling = (database: 'up' | 'down', spools: boolean) => {
    const tally = new Tally(0);
    tally.take(1, { ...sample(), database, spools }, 1_000);
    tally.take(2, { ...sample(), database }, 1_000);
    return tally.second(1_000, null).spooling;
  };
  expect([spooling('down', true), spooling('down', false), spooling('up', true)]).toEqual([true, false, false]);
});
