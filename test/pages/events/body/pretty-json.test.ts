import fc from 'fast-check';
import { expect, test } from 'vitest';
import { prettyJson } from '../../../../server/pages/events/body/json.ts';

const pretty = (text: string) => prettyJson(Buffer.from(text))?.text ?? null;

test('formatted JSON equals that of JSON.stringify', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(pretty(text)).toBe(JSON.stringify(JSON.parse(text), null, 2));
    }),
  );
});

test.each([
  ['a number longer than a double', '{"id":12345678901234567890}', '{\n  "id": 12345678901234567890\n}'],
  ['a number as it was written', '[1.0,1E5]', '[\n  1.0,\n  1E5\n]'],
  ['repeated names', '{"a":1,"a":2}', '{\n  "a": 1,\n  "a": 2\n}'],
  ['escapes as they were written', '["\\u0041\\/\\""]', '[\n  "\\u0041\\/\\""\n]'],
  ['brackets and colons inside strings', '{"a":"{[:,]}"}', '{\n  "a": "{[:,]}"\n}'],
  ['what is empty', '{ "a" : [ ] , "b" : { } }', '{\n  "a": [],\n  "b": {}\n}'],
  ['a text that was pretty already', '[\n 1,\n\n 2 ]', '[\n  1,\n  2\n]'],
  ['no byte order mark', '\ufeff[1]', '[\n  1\n]'],
])('formatted JSON keeps %s', (_, text, expected) => {
  expect(pretty(text)).toBe(expected);
});

test.each([
  ['nothing', ''],
  ['no JSON', 'a=b&c=d'],
  ['JSON with something after it', '{} {}'],
  ['JSON that ends too early', '{"a":'],
])('formatted JSON is absent for %s', (_, text) => {
  expect(pretty(text)).toBeNull();
});

test('formatted JSON is cut at the limit, and says so', () => {
  const text = Buffer.from('[1,2,3]');
  expect(prettyJson(text, 15)).toEqual({ text: '[\n  1,\n  2,\n  3', complete: false });
  expect(prettyJson(text, 17)).toEqual({ text: '[\n  1,\n  2,\n  3\n]', complete: true });
});
