import { expect, test } from 'vitest';
import { planOverload } from '../../k6/lib/plans.ts';
import { summarize } from '../../k6/lib/summary.ts';

const environment = {
  WEBHOOK_URL: 'http://127.0.0.1:8080/in/x',
  WEIR_SECRET: 'hush',
  WEIR_TOKEN: 'hush',
  DURATION: '1s',
  RATE_START: '100',
  RATE_PEAK: '1000',
  MACHINE: 'two cores',
};
const data = {
  metrics: {
    weir_answers: { values: { count: 99, rate: 1 } },
    'weir_answers{status:202}': { values: { count: 90 }, thresholds: { 'count>=0': { ok: true } } },
    'weir_answers{status:503,code:queue_full}': { values: { count: 8 }, thresholds: { 'count>=0': { ok: true } } },
    'http_req_failed{scenario:recovery}': { values: { rate: 0.00123456 }, thresholds: { 'rate<0.001': { ok: false } } },
    http_req_duration: { values: { 'p(99)': 9 } },
    'http_req_duration{expected_response:true}': { values: { 'p(99)': 8 } },
  },
  setup_data: { build: { version: '1.2.3', commit: 'abc', node: '20.0.0' } },
};
const at = new Date('2026-03-01T12:00:00Z');

test('the text says what was sent of what was planned, and which limits were missed', () => {
  const { stdout } = summarize(planOverload(environment), data, at);
  expect(stdout).toBe(
    [
      'k6 overload: commit abc, machine two cores',
      'sent 99 of 1650 planned requests',
      '1551 were not sent: the run ended early, all virtual users waited for answers (VUS), or k6 lacked processor time. The figures are those of a lower rate.',
      'answered 202: 90',
      'answered 503 queue_full: 8',
      'answered other: 1',
      'MISSED  http_req_failed{scenario:recovery}: rate<0.001   (0.001)',
      '',
    ].join('\n'),
  );
});

test('the line of JSON has commit, machine, settings and figures, and no secret', () => {
  const written = summarize(planOverload({ ...environment, SUMMARY: 'stdout', COMMIT: 'def' }), data, at);
  expect(written.stderr).toContain('sent 99 of 1650');
  expect(written.stdout).not.toContain('hush');
  const record = JSON.parse(written.stdout!);
  expect(record).toMatchObject({
    scenario: 'k6 overload',
    settings: { DURATION: 1_000, RATE_PEAK: 1_000 },
    at: '2026-03-01T12:00:00.000Z',
    machine: { name: 'two cores', commit: 'def', version: '1.2.3', node: '20.0.0' },
    planned: 1_650,
    sent: 99,
    answers: { 202: 90, '503 queue_full': 8, other: 1 },
    goals: [{ what: 'http_req_failed{scenario:recovery}: rate<0.001', met: false }],
  });
  expect(Object.keys(record.results)).toEqual([
    'weir_answers',
    'http_req_failed{scenario:recovery}',
    'http_req_duration',
  ]);
});

test('commit and machine may be unknown', () => {
  const metrics = { weir_answers: data.metrics.weir_answers };
  const written = summarize(planOverload({ ...environment, MACHINE: '', SUMMARY: 'a.json' }), { metrics }, at);
  expect(written.stdout).toContain('commit unknown, machine unknown\nsent 99 of 1650');
  expect(JSON.parse(written['a.json']!).machine).toEqual({ name: null, commit: null });
});

test('a run that sent nothing has no figures', () => {
  expect(summarize(planOverload({ ...environment, SUMMARY: 'a.json' }), { metrics: {} }, at)).toEqual({
    stderr: 'k6 overload: nothing was sent\n',
  });
});
