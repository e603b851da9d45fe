import { expect, test } from 'vitest';
import { planAgents, planLoad, planMix, planOverload, planSoak } from '../../k6/lib/plans.ts';
import { planBreakpoint, planScale } from '../../k6/lib/steps.ts';

const target = { WEBHOOK_URL: 'http://127.0.0.1:8080/in/5f0c1d5e-0000-4000-8000-000000000001', WEIR_SECRET: 's' };
const line = JSON.stringify({ url: target.WEBHOOK_URL, secret: 's', scheme: { algorithm: 'hmac-sha256' } });

const noMoreThan = (count: number) => [{ threshold: `count<=${count}`, abortOnFail: true }];
const failures = ['rate<0.001', { threshold: 'rate<0.5', abortOnFail: true, delayAbortEval: '5s' }];

/** The thresholds that can fail. */
function judged({ options }: { options: { thresholds: Record<string, unknown[]> } }) {
  return Object.fromEntries(Object.entries(options.thresholds).filter(([, all]) => all[0] !== 'count>=0'));
}

const arrival = (rate: number, startMs: number, durationMs: number, vus: number) => ({
  executor: 'constant-arrival-rate',
  rate,
  timeUnit: '1s',
  startTime: `${startMs}ms`,
  duration: `${durationMs}ms`,
  preAllocatedVUs: vus,
  gracefulStop: '2000ms',
});

test('the load has a constant rate after a warm-up, and ends early when it cannot succeed any more', () => {
  const plan = planLoad({ ...target, RATE: '300', DURATION: '5s', VUS: '20', WARM_UP: '1s' });
  expect(plan.options.scenarios).toEqual({ warm_up: arrival(300, 0, 1_000, 20), load: arrival(300, 3_000, 5_000, 20) });
  expect(judged(plan)).toEqual({
    'http_req_duration{scenario:load}': ['p(99)<60'],
    'http_req_failed{scenario:load}': failures,
    'dropped_iterations{scenario:load}': noMoreThan(1),
    'weir_answers{scenario:load}': ['count>=1498'],
  });
  expect(plan).toMatchObject({ planned: 1_800, peak: 300 });
});

test('a mix is a load on the webhooks of a file', () => {
  const plan = planMix({ WEBHOOKS: 'file', RATE: '10' }, (path) => (path === 'file' ? `${line}\n${line}\n` : ''));
  expect(plan.targets).toHaveLength(2);
  expect(plan.settings.SIZES).toEqual([256, 1024, 16_384, 131_072]);
  expect(Object.keys(judged(plan))).toContain('http_req_failed{scenario:mix}');
});

const overload = { ...target, RATE_START: '10', RATE_PEAK: '900', DURATION: '1m', VUS: '20', P99_MS: '700' };

test('an overload plans what its ramp, its peak and its recovery send', () => {
  expect(planOverload(overload)).toMatchObject({ planned: 60 * (455 + 900 + 10), peak: 900 });
  expect(() => planOverload({ ...overload, RATE_START: '900' })).toThrow('RATE_PEAK is 900; it must be larger');
});

test('an overload fails on contract violations, on a slow recovery, and without refusals', () => {
  const thresholds = {
    weir_refused: ['count>0'],
    weir_broken_contract: noMoreThan(0),
    weir_unanswered: ['rate<0.001'],
    'http_req_duration{scenario:overload,expected_response:true}': ['p(99)<700'],
    'http_req_duration{scenario:recovery,method:POST}': ['p(99)<60'],
    'http_req_failed{scenario:recovery}': ['rate<0.001'],
  };
  expect(judged(planOverload(overload))).toEqual(thresholds);
  expect(judged(planOverload({ ...overload, WEIR_TOKEN: 'wu_x' }))).toEqual({ ...thresholds, weir_found: ['rate==1'] });
});

test('a soak is long enough for early figures', () => {
  expect(() => planSoak({ ...target, DURATION: '249s' })).toThrow(
    'DURATION is too short: each of 200 VUS would send 49 early requests',
  );
});

test('agents acknowledge each event, those of the warm-up too', () => {
  const plan = planAgents({ ...target, WEIR_CREDENTIAL: 'wa_x', RATE: '30', DURATION: '1500ms', WARM_UP: '1s' });
  expect(plan.options.scenarios.consume).toMatchObject({ startTime: '0ms', duration: '9500ms' });
  expect(judged(plan)).toMatchObject({ weir_acknowledged: ['count>=75'], weir_lost_leases: noMoreThan(0) });
});

test('the steps of scaling follow a warm-up, each with its thresholds', () => {
  const plan = planScale({ ...target, WORKERS: '2', STEPS: '4,8', DURATION: '10s' });
  const loop = (vus: number, startMs: number, durationMs: number) => ({
    executor: 'constant-vus',
    vus,
    startTime: `${startMs}ms`,
    duration: `${durationMs}ms`,
    gracefulStop: '2000ms',
  });
  expect(plan.options.scenarios).toEqual({
    warm_up: loop(4, 0, 5_000),
    step_4: loop(4, 7_000, 10_000),
    step_8: loop(8, 19_000, 10_000),
  });
  const ofStep = (step: string) => ({
    [`http_req_duration{scenario:${step}}`]: ['p(99)<1000'],
    [`http_req_failed{scenario:${step}}`]: failures,
    [`weir_answers{scenario:${step}}`]: ['count>0'],
    [`weir_answers{scenario:${step},status:429}`]: noMoreThan(0),
    [`weir_answers{scenario:${step},status:503}`]: noMoreThan(0),
  });
  expect(judged(plan)).toEqual({ ...ofStep('step_4'), ...ofStep('step_8') });
  expect(plan.planned).toBeNull();
});

test('a breakpoint run ends in the step that is too slow, or in which too little is sent', () => {
  const plan = planBreakpoint({ ...target, RATES: '100,5000', DURATION: '10s', VUS: '9' });
  expect(plan.options.scenarios.step_5000).toEqual(arrival(5_000, 19_000, 10_000, 9));
  expect(judged(plan)).toMatchObject({
    'http_req_duration{scenario:step_5000}': [{ threshold: 'p(99)<200', abortOnFail: true }],
    'dropped_iterations{scenario:step_5000}': noMoreThan(50),
  });
  expect(plan).toMatchObject({ planned: 51_500, peak: 5_000 });
});
