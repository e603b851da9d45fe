import { expect, test } from 'vitest';
import { planScale, type Run, runsIn, stepsOf, tableOf } from '../../k6/lib/steps.ts';

const plan = planScale({
  WEBHOOK_URL: 'http://127.0.0.1:8080/in/x',
  WEIR_SECRET: 'hush',
  WORKERS: '2',
  STEPS: '4,8',
  DURATION: '10s',
});

const run = (workers: number, rates: [step: number, requestsPerSecond: number][], bodyBytes = 1024): Run => ({
  scenario: 'k6 scale',
  settings: { WORKERS: workers, BODY_BYTES: bodyBytes },
  steps: rates.map(([step, requestsPerSecond]) => ({
    step,
    requestsPerSecond,
    p50Ms: 1.5,
    p99Ms: 20,
    statuses: { 202: 10 * requestsPerSecond, 429: 0, 503: 0, other: 0 },
  })),
});

test('the figures of each step that was reached; requests without a known status are other', () => {
  const metrics = {
    'weir_answers{scenario:step_4}': { values: { count: 12_345, rate: 1 } },
    'weir_answers{scenario:step_4,status:202}': { values: { count: 12_340 } },
    'weir_answers{scenario:step_4,status:503}': { values: { count: 2 } },
    'http_req_duration{scenario:step_4}': { values: { med: 1.5049, 'p(99)': 20.001 } },
    'weir_answers{scenario:step_8}': { values: { count: 0 } },
  };
  const step = { step: 4, p50Ms: 1.5, p99Ms: 20, statuses: { 202: 12_340, 429: 0, 503: 2, other: 3 } };
  expect(stepsOf(plan, { metrics })).toEqual([{ ...step, requestsPerSecond: 1234.5 }]);
  // The run ended 5 s after the start of the step.
  const state = { testRunDurationMs: 12_000 };
  expect(stepsOf(plan, { metrics, state })).toEqual([{ ...step, requestsPerSecond: 2_469 }]);
});

test('runs are parsed from their lines, and an invalid line is named', () => {
  const runs = [run(1, [[4, 100]]), run(2, [[4, 190]])];
  expect(runsIn(runs.map((one) => `${JSON.stringify(one)}\n`).join(''))).toEqual(runs);
  expect(runsIn('')).toEqual([]);
  for (const wrong of ['oops', '1', 'null', '{}'])
    expect(() => runsIn(`${JSON.stringify(runs[0])}\n${wrong}\n`)).toThrow('Line 2 of RUNS is not a run of scale.ts');
});

test('the table puts the last runs of each number of processes side by side, if script and body size are the same', () => {
  const two: [number, number][] = [
    [4, 190],
    [8, 390],
  ];
  const one: [number, number][] = [
    [4, 100],
    [8, 200],
  ];
  const other = { ...run(3, [[4, 1_000]]), scenario: 'k6 breakpoint' };
  expect(tableOf([run(1, [[4, 50]]), run(3, [[4, 1_000]], 64), other, run(2, two), run(1, one)])).toBe(
    [
      '       step    workers requests/s     p50 ms     p99 ms      times   responses',
      '          4          1        100        1.5         20       1.00   202: 1000',
      '          4          2        190        1.5         20       1.90   202: 1900',
      '          8          1        200        1.5         20       1.00   202: 2000',
      '          8          2        390        1.5         20       1.95   202: 3900',
      '',
    ].join('\n'),
  );
});
