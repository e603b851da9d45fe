import { describe, expect, test } from 'vitest';
import {
  type Answer,
  accepted,
  answerSelectors,
  type Checks,
  codeOf,
  eventIdOf,
  objectionTo,
  outcomeOf,
  refused,
} from '../../k6/lib/answers.ts';
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

describe('a response that is not a JSON object fails the check without an exception', () => {
  test.each([null, undefined, '', 'oops', '[]', 'null', '1'])('%j', (body) => {
    const given = { status: 0, body, headers: {} };
    expect(verdicts(accepted(10), given)).toEqual([false, false]);
    expect(verdicts(refused('it', 413), given)).toEqual([false, false]);
  });
});

describe('under overload', () => {
  const later = { 'Retry-After': '1' };

  test.each([
    [202, { 'X-Weir-Event-Id': 'e' }, 'accepted'],
    [204, { 'X-Weir-Event-Id': 'e' }, 'accepted'],
    [202, {}, 'broken'],
    [429, later, 'refused'],
    [503, later, 'refused'],
    [0, {}, 'unanswered'],
    [429, {}, 'broken'],
    [503, {}, 'broken'],
    [503, { 'Retry-After': '0' }, 'broken'],
    [503, { 'Retry-After': 'soon' }, 'broken'],
    [500, later, 'broken'],
    [502, later, 'broken'],
    [200, {}, 'broken'],
    [403, {}, 'broken'],
  ])('%i with %j is %s', (status, headers, outcome) => {
    expect(outcomeOf({ status, body: null, headers })).toBe(outcome);
  });
});

test('the id of a stored event is read, whatever its body', () => {
  expect(eventIdOf(answer(202, null))).toBe('e');
  expect(eventIdOf({ status: 202, body: null, headers: {} })).toBeNull();
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
