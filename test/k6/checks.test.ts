import { describe, expect, test } from 'vitest';
import { type Answer, accepted, type Checks, eventIdOf, outcomeOf, refused } from '../../k6/lib/checks.ts';

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
