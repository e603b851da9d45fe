/** JSON as a tree, and formatted. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  jsonTree,
  prettyJson,
  TREE_DEPTH_MAX,
  TREE_VALUES_MAX,
  validJson,
} from '../../../../server/pages/events/body/json.ts';

const treeOf = (text: string) => jsonTree(validJson(Buffer.from(text))!);
const tree = (value: unknown) => treeOf(JSON.stringify(value));
const values = (html: string) => html.split('<li').length - 1;
/** All tags of a tree, without their attributes; unbalanced ones are left over. */
const isBalanced = (html: string) => {
  const open: string[] = [];
  for (const [, end, name] of html.matchAll(/<(\/?)(\w+)[^>]*>/g)) {
    if (end === '') open.push(name!);
    else if (open.pop() !== name) return false;
  }
  return open.length === 0;
};

test('names and values become items, with the name or index for pointers', () => {
  expect(tree({ a: [true, 'x'] }).html).toBe(
    '<ul><li><details open data-t="{"><summary><span class="muted">{ 1 member }</span></summary><ul>' +
      '<li data-k="a"><details open data-t="["><summary><span class="key">a</span> <span class="muted">[ 2 elements ]</span></summary><ul>' +
      '<li data-k="0"><span class="key">0</span> <span class="word">true</span></li>' +
      '<li data-k="1"><span class="key">1</span> <span class="string">&quot;x&quot;</span></li>' +
      '</ul></details></li></ul></details></li></ul>',
  );
});

test.each([
  ['markup in a value', '"</span><script>alert(1)</script>"', /&lt;script&gt;/],
  ['markup in a name', String.raw`{"\"><img src=x onerror=1>":1}`, /data-k="&quot;&gt;&lt;img src=x onerror=1&gt;"/],
  ['an escaped quote in a name', String.raw`{"a\u0022 onclick=\u0022":1}`, /data-k="a&quot; onclick=&quot;"/],
  ['half a surrogate pair in a name', String.raw`{"\ud83d":1}`, /data-k="\ufffd"/],
  ['a character that turns the direction of the text', '"a\u202eb"', /"string">&quot;a\\u202eb&quot;/],
  ['a space without width in a name', '{"a\u200bb":1}', /<span class="key">a\\u200bb</],
  ['a name for pointers', '{"a\u200bb":1}', /data-k="a\u200bb"/],
  ['an emoji of several', '"👩\u200d💻"', /👩\u200d💻/],
  ['an empty name', '{"":1}', /<li data-k=""><span class="key"><\/span>/],
  ['a number longer than a double', '12345678901234567890', /12345678901234567890/],
])('%s stays text', (_what, text, expected) => {
  const { html } = treeOf(text);
  expect(html).toMatch(expected);
  expect(html).not.toMatch(/<(?!\/?(ul|li|span|details|summary)\b)/);
});

test('any JSON becomes a balanced tree', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 8 }), (text) => {
      expect(isBalanced(treeOf(text).html.replace(/&[^;]+;/g, ''))).toBe(true);
    }),
  );
});

describe('a tree is limited', () => {
  test(`to ${TREE_VALUES_MAX} values`, () => {
    const whole = tree(Array.from({ length: TREE_VALUES_MAX - 1 }, (_, i) => i));
    expect([whole.complete, values(whole.html)]).toEqual([true, TREE_VALUES_MAX]);
    const cut = tree(Array.from({ length: TREE_VALUES_MAX }, (_, i) => i));
    expect([cut.complete, values(cut.html), isBalanced(cut.html)]).toEqual([false, TREE_VALUES_MAX, true]);
    expect(cut.html).toContain('[ at least 999 elements ]');
    const nested = tree({ a: { b: Array.from({ length: 2_000 }, () => ({ c: 1 })) }, d: 1 });
    expect([nested.complete, values(nested.html), isBalanced(nested.html)]).toEqual([false, TREE_VALUES_MAX, true]);
  });

  test(`to ${TREE_DEPTH_MAX} levels, also for 100,000 brackets`, () => {
    const nest = (levels: number) => treeOf(`[${'['.repeat(levels)}${']'.repeat(levels)},1]`);
    expect(nest(TREE_DEPTH_MAX - 1).complete).toBe(true);
    const cut = nest(100_000);
    expect([cut.complete, values(cut.html), isBalanced(cut.html)]).toEqual([false, TREE_DEPTH_MAX + 2, true]);
  });

  test('to 2,000 characters of a value', () => {
    expect(tree('a'.repeat(1_998)).html).not.toContain('…');
    expect(tree('a'.repeat(1_999)).html).toContain('…');
  });
});

test.each(['', 'a=b', '{"a":', '{} {}'])('%j is not a tree', (text) => {
  expect(validJson(Buffer.from(text))).toBeNull();
});

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
