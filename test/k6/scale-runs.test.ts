import { expect, test } from 'vitest';
import { type Run, runOf, runsIn, tableOf } from '../../k6/lib/scale-runs.ts';
import { readScaleSettings } from '../../k6/lib/settings.ts';

const settings = readScaleSettings({
  WEBHOOK_URL: 'http://127.0.0.1:8080/in/x',
  WEIR_SECRET: 'hush',
  WORKERS: '2',
  STEPS: '4,8',
  DURATION: '10s',
});

const run = (workers: number, rates: [vus: number, requestsPerSecond: number][]): Run => ({
  at: '2026-03-01T12:00:00.000Z',
  workers,
  bodyBytes: 1024,
  steps: rates.map(([vus, requestsPerSecond]) => ({
    vus,
    requestsPerSecond,
    p50Ms: 1.5,
    p99Ms: 20,
    statuses: { 202: 10 * requestsPerSecond, 429: 0, 503: 0, other: 0 },
  })),
});

test('a run is read from the k6 counts of each step; requests without a known status are other', () => {
  const metrics = {
    'http_reqs{scenario:vus_4}': { values: { count: 12_345, rate: 1 } },
    'http_reqs{scenario:vus_4,status:202}': { values: { count: 12_340 } },
    'http_reqs{scenario:vus_4,status:503}': { values: { count: 2 } },
    'http_req_duration{scenario:vus_4}': { values: { med: 1.5049, 'p(99)': 20.001 } },
  };
  const nothing = { requestsPerSecond: 0, p50Ms: 0, p99Ms: 0, statuses: { 202: 0, 429: 0, 503: 0, other: 0 } };
  const read = runOf(settings, metrics, new Date('2026-03-01T12:00:00Z'));
  expect(read).toEqual({
    at: '2026-03-01T12:00:00.000Z',
    workers: 2,
    bodyBytes: 1024,
    steps: [
      {
        vus: 4,
        requestsPerSecond: 1234.5,
        p50Ms: 1.5,
        p99Ms: 20,
        statuses: { 202: 12_340, 429: 0, 503: 2, other: 3 },
      },
      { vus: 8, ...nothing },
    ],
  });
  expect(JSON.stringify(read)).not.toContain('hush');
});

test('runs are parsed from their lines, and an invalid line is named', () => {
  const runs = [run(1, [[4, 100]]), run(2, [[4, 190]])];
  expect(runsIn(runs.map((one) => `${JSON.stringify(one)}\n`).join(''))).toEqual(runs);
  expect(runsIn('')).toEqual([]);
  for (const wrong of ['oops', '1', 'null', '{}'])
    expect(() => runsIn(`${JSON.stringify(runs[0])}\n${wrong}\n`)).toThrow('Line 2 of RUNS is not a run of scale.ts');
});

test('the table puts the last runs of each number of processes side by side, if their bodies have the same size', () => {
  const runs = [
    run(1, [[4, 50]]),
    { ...run(3, [[4, 1_000]]), bodyBytes: 64 },
    run(2, [
      [4, 190],
      [8, 390],
    ]),
    run(1, [
      [4, 100],
      [8, 200],
    ]),
  ];
  expect(tableOf(runs)).toBe(
    [
      '        VUs    workers requests/s     p50 ms     p99 ms      times   responses',
      '          4          1        100        1.5         20       1.00   202: 1000',
      '          4          2        190        1.5         20       1.90   202: 1900',
      '          8          1        200        1.5         20       1.00   202: 2000',
      '          8          2        390        1.5         20       1.95   202: 3900',
      '',
    ].join('\n'),
  );
});

test('a step in only one run, and one without a response, have their own rows', () => {
  const [, single, silent] = tableOf([
    run(2, [
      [16, 10],
      [32, 0],
    ]),
  ]).split('\n');
  expect(single).toMatch(/16 +2 +10 .* 1\.00 {3}202: 100$/);
  expect(silent).toMatch(/32 +2 +0 .* - +$/);
});
