import { expect, test } from 'vitest';
import { compileFilter, type FilterVariables, failureText } from '../../../server/model/filters/expression.ts';

const event: FilterVariables = {
  headers: { 'x-github-event': 'issues', host: 'example.org' },
  content_type: 'application/json',
  bytes: 120n,
  body: JSON.parse('{"action":"opened","amount":100,"labels":[{"name":"bug"}],"none":null,"__proto__":{"x":1}}'),
  webhook: 'orders',
  event_type: 'issues.opened',
};

/** The verdict on an event, or why the expression fails on it. */
function judge(text: string, more: Partial<FilterVariables> = {}): boolean | string {
  const compiled = compileFilter(text);
  if (compiled.kind === 'fault') return compiled.fault.detail;
  try {
    return compiled.passes({ ...event, ...more });
  } catch (error) {
    return failureText(error);
  }
}

test.each([
  ['body.action == "opened"', true],
  ['body.action in ["closed", "deleted"]', false],
  ['body.amount == 100 && body.amount > 99.5', true],
  ['body.labels.exists(label, label.name == "bug")', true],
  ['has(body.labels) && size(body.labels) > 1', false],
  ['has(body.constructor) || has(body.toString)', false],
  ['body.none == null', true],
  ['headers["x-github-event"] == "issues"', true],
  ['"x-missing" in headers && headers["x-missing"] == "a"', false],
  ['bytes > 100 && bytes(webhook) == b"orders" // a comment', true],
  ['event_type.startsWith("issues.")', true],
  ['event_type.matches("^issues\\\\.(opened|closed)$")', true],
  ['content_type == "application/json"', true],
  ['webhook ==\n  "orders"', true],
  ['body.?missing.orValue(1) == 1', true],
])('the filter %s gives %s', (text, verdict) => {
  expect(judge(text)).toBe(verdict);
});

test.each([null, 'text', 5, [1], true])('a body that is %j has no members', (body) => {
  expect(judge('has(body.action) && body.action == "opened"', { body })).toBe(false);
  expect(judge('body.action == "opened"', { body })).toBe('No such key: action');
});

test.each([
  [
    'bdy.a == 1',
    /^Character 1: unknown variable: bdy; a filter can read headers, content_type, bytes, body, webhook, event_type\.$/,
  ],
  ['bytes > 1 &&\n  bdy.a', /^Line 2, character 3: unknown variable: bdy;/],
  ['body.a = 1', /^Character 8: unexpected character: =; write == to compare\.$/],
  ['body.a ==', /^Character 10: unexpected token: EOF\.$/],
  ['bytes == "1"', /^Character 1: no such overload: int == string\.$/],
  ['bytes + 1', /^Character 1: the expression gives int, and a filter must give true or false\.$/],
  ['webhook.includes("a")', /^Character 1: found no matching overload for 'string.includes\(string\)'\.$/],
  ['webhook.matches("(")', /^Character 17: Invalid regular expression/],
  ['true) || (true', /^Character 5: /],
  [`${'('.repeat(100)}true${')'.repeat(100)}`, /^Character \d+: /],
  [`${'!'.repeat(1_500)}true`, /^Character \d+: /],
  [`[${'1,'.repeat(300)}1] == []`, /^Character \d+: /],
  ['', /^Character 1: /],
])('a fault names its place and what to do: %j', (text, detail) => {
  expect(judge(text)).toMatch(detail);
});

test('an expression fails on an event for which it gives neither true nor false', () => {
  expect(judge('body.action')).toBe('the expression gave a string, not true or false');
  expect(judge('body.none')).toBe('the expression gave null, not true or false');
});
