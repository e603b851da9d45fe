import { describe, expect, test } from 'vitest';
import {
  type Answer,
  accepted,
  answerSelectors,
  type Checks,
  codeOf,
  objectionTo,
  objectionToAgent,
  outcomeOf,
  refused,
} from '../../k6/lib/answers.ts';
import { figureOf, labelsOf, watched } from '../../k6/lib/metrics-text.ts';
import { planOverload } from '../../k6/lib/plans.ts';
import { summarize } from '../../k6/lib/summary.ts';
import { metricTable } from '../../server/base/telemetry/metric-table.ts';
import { problems } from '../../server/model/errors.ts';

const answer = (status: number, body: unknown): Answer => ({
  status,
  body: JSON.stringify(body),
  headers: { 'X-Weir-Event-Id': 'e' },
});
const verdicts = (checks: Checks, given: Answer) => Object.values(checks).map((holds) => holds(given));

const event = { id: 'e', webhook_id: 'w', received_at: '2026-03-01T12:00:00.000Z', bytes: 10 };
const problem = { type: 'about:blank', title: 'Forbidden', status: 403, code: 'signature_invalid', request_id: 'r' };

test('the response to an accepted event has its id and size', () => {
  expect(verdicts(accepted(10), answer(202, event))).toEqual([true, true]);
  expect(verdicts(accepted(11), answer(202, event))).toEqual([true, false]);
  expect(verdicts(accepted(10), answer(200, event))).toEqual([false, true]);
  expect(verdicts(accepted(10), answer(202, { ...event, id: undefined }))).toEqual([true, false]);
});

test('a refusal is a problem document with the same status', () => {
  expect(verdicts(refused('it', 403), answer(403, problem))).toEqual([true, true]);
  expect(verdicts(refused('it', 403), answer(403, { ...problem, status: 404 }))).toEqual([true, false]);
  expect(verdicts(refused('it', 403), answer(202, event))).toEqual([false, false]);
});

test.each([null, undefined, '', 'oops', '[]', 'null', '1'])(
  'a response that is not a JSON object fails the check without an exception: %j',
  (body) => {
    const given = { status: 0, body, headers: {} };
    expect(verdicts(accepted(10), given)).toEqual([false, false]);
    expect(verdicts(refused('it', 413), given)).toEqual([false, false]);
  },
);

describe('under overload', () => {
  const later = { 'Retry-After': '1' };

  test.each([
    [202, { 'X-Weir-Event-Id': 'e' }, 'accepted'],
    [202, {}, 'broken'],
    [429, later, 'refused'],
    [503, later, 'refused'],
    [0, {}, 'unanswered'],
    [429, {}, 'broken'],
    [503, {}, 'broken'],
    [503, { 'Retry-After': '0' }, 'broken'],
    [503, { 'Retry-After': 'soon' }, 'broken'],
    [500, later, 'broken'],
    [200, {}, 'broken'],
    [403, {}, 'broken'],
  ])('%i with %j is %s', (status, headers, outcome) => {
    expect(outcomeOf({ status, body: null, headers })).toBe(outcome);
  });
});

test('an answer is counted by its status, and by its code when it is a refusal', () => {
  expect(codeOf(answer(202, event))).toBe('');
  expect(codeOf(answer(403, problem))).toBe('signature_invalid');
  expect(codeOf({ status: 0, body: null, headers: {} })).toBe('');
  for (const tags of answerSelectors) {
    const [, status, code] = /^status:(\d+)(?:,code:(\w+))?$/.exec(tags)!;
    if (code !== undefined) expect(problems).toMatchObject({ [code]: { status: Number(status) } });
  }
});

describe('the run cannot succeed', () => {
  const policy = (max: number) => ({ 'X-Weir-Event-Id': 'e', 'Ratelimit-Policy': `"webhook";q=${max};w=60` });
  const perWindow = (seconds: number) => seconds * 10;
  const refusal = (code: keyof typeof problems): Answer => {
    const { status, detail } = problems[code];
    return { status, headers: {}, body: JSON.stringify({ status, code, detail }) };
  };

  test.each([
    [{ status: 0, body: null, headers: {}, error: 'connection refused' }, 'u does not answer: connection refused'],
    [
      { status: 200, body: '<html>', headers: {} },
      'u answers a signed request with 200. This is not an answer of Weir.',
    ],
    [
      refusal('webhook_unknown'),
      'u answers a signed request with 404 webhook_unknown. No webhook has this id. The id in',
    ],
    [refusal('signature_mismatch'), 'WEIR_SECRET or WEIR_SCHEME is not that of the webhook.'],
    [refusal('signature_missing'), 'WEIR_SCHEME is not the scheme of the webhook.'],
    [refusal('webhook_disabled'), 'weir webhook update ID --enabled true'],
    [refusal('rate_limited'), 'weir webhook update ID --rate-limit 100000000'],
    [
      { status: 202, body: '', headers: policy(599) },
      'u takes 599 requests in 60 s from one address, and this run sends 600',
    ],
  ])('%j', (given, reason) => {
    expect(objectionTo(given, 'u', perWindow)).toContain(reason);
  });

  test('except when the event is stored, and the limit allows it or is unknown', () => {
    expect(objectionTo({ status: 202, body: '', headers: policy(600) }, 'u', perWindow)).toBeNull();
    expect(objectionTo({ status: 202, body: '', headers: policy(1) }, 'u', () => null)).toBeNull();
    expect(objectionTo(answer(204, null), 'u', perWindow)).toBeNull();
  });
});

test('a run with an agent that is paused, not subscribed or behind cannot succeed', () => {
  const me = { pending: 0, paused: false, webhooks: [{ id: 'a' }, { id: 'b' }] };
  const url = 'http://127.0.0.1:8080/in/b';
  expect(objectionToAgent(me, url)).toBeNull();
  expect(objectionToAgent({ ...me, paused: true }, url)).toContain('weir agent resume NAME');
  expect(objectionToAgent({ ...me, webhooks: [{ id: 'a' }] }, url)).toContain('weir agent add --name k6-2 --webhook b');
  expect(objectionToAgent({ ...me, pending: 3 }, url)).toContain('3 pending deliveries');
});

const page = `# HELP weir_connections open TCP connections
# TYPE weir_connections gauge
weir_connections 12

# TYPE weir_requests_total counter
weir_requests_total{route="/in/:webhook_id",status="202"} 1.5e3
weir_requests_total{route="/readyz",status="200"} 2
`;

test('a figure is the sum over the labels', () => {
  expect(figureOf('weir_connections', page)).toBe(12);
  expect(figureOf('weir_requests_total', page)).toBe(1502);
});

test('a page without the metric is refused, and a longer name is another metric', () => {
  expect(() => figureOf('weir_conn', page)).toThrow(
    'METRICS_URL has no weir_conn; it must be the metrics page of Weir',
  );
  expect(() => figureOf('weir_connections', '')).toThrow('METRICS_URL has no weir_connections');
});

test('the labels of a metric are read, and are empty without it', () => {
  expect(labelsOf('weir_build_info', 'weir_build_info{version="1.2",commit="abc"} 1')).toEqual({
    version: '1.2',
    commit: 'abc',
  });
  expect(labelsOf('weir_build_info', page)).toEqual({});
});

test('Weir publishes every metric that the soak reads', () => {
  for (const name of Object.values(watched)) expect(metricTable).toHaveProperty(name);
});

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

test('a limit on what was not measured, because the run ended before, is neither met nor missed', () => {
  const metrics = {
    ...data.metrics,
    'http_req_duration{scenario:recovery}': {
      contains: 'time',
      values: { 'p(99)': 0, max: 0 },
      thresholds: { 'p(99)<60': { ok: true } },
    },
    'http_req_failed{scenario:recovery}': {
      values: { rate: 0, passes: 0, fails: 0 },
      thresholds: { 'rate<0.001': { ok: true } },
    },
    'weir_answers{scenario:late}': { values: { count: 0 } },
    'dropped_iterations{scenario:late}': { values: { count: 0 }, thresholds: { 'count<=9': { ok: true } } },
    'http_req_failed{scenario:late}': { values: { rate: 1 }, thresholds: { 'rate<0.001': { ok: false } } },
    weir_unanswered: { values: { rate: 0, passes: 0, fails: 9 }, thresholds: { 'rate<0.001': { ok: true } } },
    weir_queue_events: { values: { 'p(99)': 0, max: 0 }, thresholds: { 'p(99)<200': { ok: true } } },
  };
  const { stdout, stderr } = summarize(planOverload({ ...environment, SUMMARY: 'stdout' }), { metrics }, at);
  expect(stderr!.split('\n').slice(6, -1)).toEqual([
    'MISSED  http_req_failed{scenario:late}: rate<0.001   (1)',
    'met     weir_queue_events: p(99)<200   (0)',
    'met     weir_unanswered: rate<0.001   (0)',
    '3 limits were not measured: the run ended before.',
  ]);
  const goals: { met: boolean | null }[] = JSON.parse(stdout!).goals;
  expect(goals.map(({ met }) => met)).toEqual([null, null, false, null, true, true]);
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

test('a run that sent nothing has no figures', () => {
  expect(summarize(planOverload({ ...environment, SUMMARY: 'a.json' }), { metrics: {} }, at)).toEqual({
    stderr: 'k6 overload: nothing was sent\n',
  });
});
