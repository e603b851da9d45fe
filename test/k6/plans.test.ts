import { expect, test } from 'vitest';
import { Drift, phaseAt } from '../../k6/lib/drift.ts';
import { planAgents, planLoad, planMix, planOverload, planSoak } from '../../k6/lib/plans.ts';
import { planBreakpoint, planScale, runsIn, type StepsRun, stepsOf, tableOf } from '../../k6/lib/steps.ts';

const target = { WEBHOOK_URL: 'http://127.0.0.1:8080/in/5f0c1d5e-0000-4000-8000-000000000001', WEIR_SECRET: 's' };
const line = JSON.stringify({ url: target.WEBHOOK_URL, secret: 's', scheme: { algorithm: 'hmac-sha256' } });

const noMoreThan = (count: number) => [{ threshold: `count<=${count}`, abortOnFail: true }];

test('the load has a constant rate after a warm-up, and ends early when it cannot succeed any more', () => {
  const plan = planLoad({ ...target, RATE: '300', DURATION: '5s', VUS: '20', WARM_UP: '1s' });
  expect(plan.options.scenarios).toMatchObject({
    warm_up: { rate: 300, startTime: '0ms', duration: '1000ms', preAllocatedVUs: 20 },
    load: { executor: 'constant-arrival-rate', rate: 300, startTime: '3000ms', duration: '5000ms' },
  });
  expect(plan.options.thresholds).toMatchObject({
    'http_req_duration{scenario:load}': ['p(99)<60'],
    'http_req_failed{scenario:load}': ['rate<0.001', { threshold: 'rate<0.5', abortOnFail: true }],
    'dropped_iterations{scenario:load}': noMoreThan(1),
    'weir_answers{scenario:load}': ['count>=1498'],
  });
  expect(plan).toMatchObject({ planned: 1_800, peak: 300 });
});

test('a mix is a load on the webhooks of a file', () => {
  const plan = planMix({ WEBHOOKS: 'file', RATE: '10' }, (path) => (path === 'file' ? `${line}\n${line}\n` : ''));
  expect(plan.targets).toHaveLength(2);
  expect(plan.options.thresholds).toHaveProperty(['http_req_failed{scenario:mix}']);
});

test('an overload has a ramp, a peak and a recovery, and fails on contract violations and without refusals', () => {
  const overload = { ...target, RATE_START: '10', RATE_PEAK: '900', DURATION: '1m', VUS: '20', P99_MS: '700' };
  const plan = planOverload(overload);
  expect(plan).toMatchObject({ planned: 60 * (455 + 900 + 10), peak: 900 });
  expect(plan.options.thresholds).toMatchObject({
    weir_refused: ['count>0'],
    weir_broken_contract: noMoreThan(0),
    weir_unanswered: ['rate<0.001'],
    'http_req_duration{scenario:overload,expected_response:true}': ['p(99)<700'],
    'http_req_duration{scenario:recovery,method:POST}': ['p(99)<60'],
    'http_req_failed{scenario:recovery}': ['rate<0.001'],
  });
  expect(planOverload({ ...overload, WEIR_TOKEN: 'wu_x' }).options.thresholds).toMatchObject({
    weir_found: ['rate==1'],
  });
  expect(() => planOverload({ ...overload, RATE_START: '900' })).toThrow('RATE_PEAK is 900; it must be larger');
});

test('a soak is long enough for early figures', () => {
  expect(() => planSoak({ ...target, DURATION: '249s' })).toThrow(
    'DURATION is too short: each of 200 VUS would send 49 early requests',
  );
});

test('agents acknowledge each event, those of the warm-up too', () => {
  const plan = planAgents({ ...target, WEIR_CREDENTIAL: 'wa_x', RATE: '30', DURATION: '1500ms', WARM_UP: '1s' });
  expect(plan.options.scenarios.consume).toMatchObject({ startTime: '0ms', duration: '9500ms' });
  expect(plan.options.thresholds).toMatchObject({ weir_acknowledged: ['count>=75'], weir_lost_leases: noMoreThan(0) });
});

const scale = planScale({ ...target, WORKERS: '2', STEPS: '4,8', DURATION: '10s' });

test('the steps of scaling follow a warm-up, each with its thresholds', () => {
  expect(scale.options.scenarios).toMatchObject({
    warm_up: { vus: 4, startTime: '0ms', duration: '5000ms' },
    step_4: { executor: 'constant-vus', vus: 4, startTime: '7000ms', duration: '10000ms' },
    step_8: { vus: 8, startTime: '19000ms', duration: '10000ms' },
  });
  expect(scale.options.thresholds).toMatchObject({
    'http_req_duration{scenario:step_8}': ['p(99)<1000'],
    'http_req_failed{scenario:step_8}': ['rate<0.001', { threshold: 'rate<0.5', abortOnFail: true }],
    'weir_answers{scenario:step_8}': ['count>0'],
    'weir_answers{scenario:step_8,status:429}': noMoreThan(0),
    'weir_answers{scenario:step_8,status:503}': noMoreThan(0),
  });
  expect(scale.planned).toBeNull();
});

test('a breakpoint run ends in the step that is too slow, or in which too little is sent', () => {
  const plan = planBreakpoint({ ...target, RATES: '100,5000', DURATION: '10s', VUS: '9' });
  expect(plan.options.scenarios.step_5000).toMatchObject({ rate: 5_000, startTime: '19000ms', preAllocatedVUs: 9 });
  expect(plan.options.thresholds).toMatchObject({
    'http_req_duration{scenario:step_5000}': [{ threshold: 'p(99)<200', abortOnFail: true }],
    'dropped_iterations{scenario:step_5000}': noMoreThan(50),
  });
  expect(plan).toMatchObject({ planned: 51_500, peak: 5_000 });
});

const run = (workers: number, rates: [step: number, requestsPerSecond: number][], bodyBytes = 1024): StepsRun => ({
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
  expect(stepsOf(scale, { metrics })).toEqual([{ ...step, requestsPerSecond: 1234.5 }]);
  // The run ended 5 s after the start of the step.
  const state = { testRunDurationMs: 12_000 };
  expect(stepsOf(scale, { metrics, state })).toEqual([{ ...step, requestsPerSecond: 2_469 }]);
});

test('the table puts the last runs of each number of processes side by side, if script and body size are the same', () => {
  const other = { ...run(3, [[4, 1_000]]), scenario: 'k6 breakpoint' };
  const runs = [run(1, [[4, 50]]), run(3, [[4, 1_000]], 64), other, run(2, [[4, 190]]), run(1, [[4, 100]])];
  expect(runsIn(runs.map((one) => `${JSON.stringify(one)}\n`).join(''))).toEqual(runs);
  expect(() => runsIn(`${JSON.stringify(runs[0])}\n{}\n`)).toThrow('Line 2 of RUNS is not a run of scale.ts');
  expect(tableOf(runs)).toBe(
    [
      '       step    workers requests/s     p50 ms     p99 ms      times   responses',
      '          4          1        100        1.5         20       1.00   202: 1000',
      '          4          2        190        1.5         20       1.90   202: 1900',
      '',
    ].join('\n'),
  );
});

test('a late figure is given in percent of the mean of the early ones', () => {
  expect([0.19, 0.2, 0.39, 0.4, 0.69, 0.7, 1].map(phaseAt)).toEqual([
    'warm-up',
    'early',
    'early',
    'middle',
    'middle',
    'late',
    'late',
  ]);
  const drift = new Drift();
  expect(drift.note('late', 20), 'without early figures').toBeNull();
  for (const [phase, figure] of [
    ['warm-up', 1_000],
    ['early', 10],
    ['early', 30],
    ['middle', 1_000],
  ] as const)
    expect(drift.note(phase, figure)).toBeNull();
  expect([drift.note('late', 20), drift.note('late', 30)]).toEqual([100, 150]);
});
