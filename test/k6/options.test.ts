import { expect, test } from 'vitest';
import { agentsOptions, loadOptions, overloadOptions, scaleOptions, soakOptions } from '../../k6/lib/options.ts';
import {
  readAgentsSettings,
  readLoadSettings,
  readOverloadSettings,
  readScaleSettings,
  readSoakSettings,
} from '../../k6/lib/settings.ts';

const target = { WEBHOOK_URL: 'http://127.0.0.1:8080/in/5f0c1d5e-0000-4000-8000-000000000001', WEIR_SECRET: 's' };

test('the load has a constant arrival rate, and fails on errors, slowness and dropped iterations', () => {
  const options = loadOptions(readLoadSettings({ ...target, RATE: '300', DURATION: '5s', VUS: '20' }));
  expect(options.scenarios).toEqual({
    load: { executor: 'constant-arrival-rate', rate: 300, timeUnit: '1s', duration: '5000ms', preAllocatedVUs: 20 },
  });
  expect(options.thresholds).toEqual({
    http_req_failed: ['rate<0.001'],
    http_req_duration: ['p(99)<60'],
    dropped_iterations: ['count==0'],
  });
});

const overload = { ...target, RATE_START: '10', RATE_PEAK: '900', DURATION: '1m', VUS: '20', P99_MS: '700' };

test('the overload rises and stays; the recovery begins when its last request is over and idle connections are closed', () => {
  expect(overloadOptions(readOverloadSettings(overload)).scenarios).toEqual({
    overload: {
      executor: 'ramping-arrival-rate',
      exec: 'overload',
      startRate: 10,
      timeUnit: '1s',
      stages: [
        { target: 900, duration: '60000ms' },
        { target: 900, duration: '60000ms' },
      ],
      preAllocatedVUs: 20,
      gracefulStop: '10000ms',
    },
    recovery: {
      executor: 'constant-arrival-rate',
      exec: 'recovery',
      rate: 10,
      timeUnit: '1s',
      duration: '60000ms',
      // As many virtual users as under overload.
      preAllocatedVUs: 20,
      startTime: '136000ms',
    },
  });
});

test('an overload fails on contract violations, on a slow recovery, and without refusals', () => {
  const thresholds = {
    weir_refused: ['count>0'],
    weir_broken_contract: ['count==0'],
    weir_unanswered: ['rate<0.001'],
    'http_req_duration{scenario:overload,expected_response:true}': ['p(99)<700'],
    'http_req_duration{scenario:recovery,method:POST}': ['p(99)<60'],
    'http_req_failed{scenario:recovery}': ['rate<0.001'],
  };
  expect(overloadOptions(readOverloadSettings(overload)).thresholds).toEqual(thresholds);
  expect(overloadOptions(readOverloadSettings({ ...overload, WEIR_TOKEN: 'wu_x' })).thresholds).toEqual({
    ...thresholds,
    weir_found: ['rate==1'],
  });
});

test('a soak has a constant rate, samples 120 times, and fails on growth', () => {
  const options = soakOptions(readSoakSettings({ ...target, RATE: '100', DURATION: '1h', VUS: '50' }));
  expect(options.scenarios).toEqual({
    soak: {
      executor: 'constant-arrival-rate',
      exec: 'soak',
      rate: 100,
      timeUnit: '1s',
      duration: '3600000ms',
      preAllocatedVUs: 50,
    },
    watch: {
      executor: 'constant-arrival-rate',
      exec: 'watch',
      rate: 1,
      timeUnit: '30000ms',
      duration: '3600000ms',
      // Only one process remembers the early figures.
      preAllocatedVUs: 1,
    },
  });
  expect(options.thresholds).toEqual({
    http_req_failed: ['rate==0'],
    'dropped_iterations{scenario:soak}': ['count==0'],
    'http_req_duration{phase:early}': ['p(99)<60'],
    'http_req_duration{phase:late}': ['p(99)<60'],
    weir_late_latency_percent: ['avg>0', 'avg<150'],
    weir_late_memory_percent: ['avg>0', 'avg<125'],
    weir_late_connections_percent: ['avg>0', 'avg<110'],
    weir_queue_events: ['p(99)<100'],
  });
});

test('agents claim for five seconds more than requests are sent, and each event must be acknowledged', () => {
  const settings = { ...target, WEIR_CREDENTIAL: 'wa_x', RATE: '30', DURATION: '1500ms', VUS: '7', AGENTS: '3' };
  const options = agentsOptions(readAgentsSettings(settings));
  expect(options.scenarios).toEqual({
    load: {
      executor: 'constant-arrival-rate',
      exec: 'load',
      rate: 30,
      timeUnit: '1s',
      duration: '1500ms',
      preAllocatedVUs: 7,
    },
    consume: {
      executor: 'constant-vus',
      exec: 'consume',
      vus: 3,
      startTime: '0ms',
      duration: '6500ms',
      gracefulStop: '2000ms',
    },
  });
  expect(options.thresholds).toEqual({
    http_req_failed: ['rate<0.001'],
    'http_req_duration{scenario:load}': ['p(99)<60'],
    dropped_iterations: ['count==0'],
    weir_acknowledged: ['count>=45'],
    weir_lost_leases: ['count==0'],
    weir_delivery_ms: ['p(95)<100'],
  });
});

test('the steps of scaling follow a warm-up, each with its thresholds', () => {
  const options = scaleOptions(readScaleSettings({ ...target, WORKERS: '2', STEPS: '4,8', DURATION: '10s' }));
  expect(options.scenarios).toEqual({
    warm_up: { executor: 'constant-vus', vus: 4, startTime: '0ms', duration: '5000ms', gracefulStop: '2000ms' },
    vus_4: { executor: 'constant-vus', vus: 4, startTime: '7000ms', duration: '10000ms', gracefulStop: '2000ms' },
    vus_8: { executor: 'constant-vus', vus: 8, startTime: '19000ms', duration: '10000ms', gracefulStop: '2000ms' },
  });
  const ofStep = (step: string) => ({
    [`http_req_duration{scenario:${step}}`]: ['p(99)<1000'],
    [`http_req_failed{scenario:${step}}`]: ['rate<0.001'],
    [`http_reqs{scenario:${step}}`]: ['count>0'],
    [`http_reqs{scenario:${step},status:202}`]: ['count>0'],
    [`http_reqs{scenario:${step},status:429}`]: ['count==0'],
    [`http_reqs{scenario:${step},status:503}`]: ['count==0'],
  });
  expect(options.thresholds).toEqual({ ...ofStep('vus_4'), ...ofStep('vus_8') });
});
