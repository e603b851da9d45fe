/** How the body of an event is shown: its views, its difference from the one before, forms and XML. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { diffOf, FIELDS_MAX, formFields, prettyXml, showBody } from '../../../../server/pages/events/body/view.ts';

const json = Buffer.from('{"a":[1]}');
const binary = Buffer.from([0, 1, 0xff, 0x41]);
const inHex = `00000000  00 01 ff 41${' '.repeat(37)}  ...A`;
const ofJson = (bytes: number) => Buffer.from(JSON.stringify('a'.repeat(bytes)));

describe('a body', () => {
  test.each([
    ['JSON formatted', json, 'pretty', 'pretty', '{\n  "a": [\n    1\n  ]\n}'],
    ['hidden characters of JSON as escapes', Buffer.from('["\u202e"]'), 'pretty', 'pretty', '[\n  "\\u202e"\n]'],
    ['JSON as it is', json, 'raw', 'raw', '{"a":[1]}'],
    ['text is shown as it is', Buffer.from('a=b'), null, 'raw', 'a=b'],
    ['text that is asked for as JSON, too', Buffer.from('a=b'), 'pretty', 'raw', 'a=b'],
    ['XML is indented', Buffer.from('<?xml ?><a><b>1</b></a>'), null, 'xml', '<?xml ?>\n<a>\n  <b>1</b>\n</a>'],
    ['an unknown view is the most readable', Buffer.from('a'), 'nonsense', 'raw', 'a'],
    ['bytes that are not text are shown in hex', binary, null, 'hex', inHex],
    ['bytes that are not text, asked for as text', binary, 'raw', 'hex', inHex],
  ])('%s', (_, body, wanted, view, text) => {
    expect(showBody(body, null, wanted)).toMatchObject({ view, text, shownBytes: null });
  });

  test.each([
    ['JSON', json, ['tree', 'pretty', 'raw', 'hex', 'diff']],
    ['JSON of more than 64 KiB', ofJson(70_000), ['tree', 'pretty', 'raw', 'hex', 'diff']],
    ['JSON of more than 2 MiB', ofJson(2_097_152), ['raw', 'hex', 'diff']],
    ['text', Buffer.from('a=b'), ['raw', 'hex', 'diff']],
    ['nothing', Buffer.alloc(0), ['raw', 'hex', 'diff']],
    ['bytes that are not text', binary, ['hex']],
  ])('that is %s has these views', (_, body, views) => {
    expect(showBody(body, null, null).views).toEqual(views);
  });

  test('of 65,536 bytes is shown completely, one more byte is cut at a character boundary', () => {
    expect(showBody(Buffer.alloc(65_536, 'a'), null, 'raw').shownBytes).toBeNull();
    expect(showBody(Buffer.alloc(65_537, 'a'), null, 'raw').shownBytes).toBe(65_536);
    const cut = showBody(Buffer.from(`${'a'.repeat(65_535)}ü`), null, 'raw');
    expect([cut.view, cut.shownBytes]).toEqual(['raw', 65_535]);
  });

  test('has at most 8,192 bytes in hex', () => {
    expect(showBody(Buffer.alloc(8_192), null, 'hex').shownBytes).toBeNull();
    const cut = showBody(Buffer.alloc(8_193), null, 'hex');
    expect([cut.shownBytes, cut.text.split('\n').length]).toEqual([8_192, 512]);
  });

  test('that is JSON of more than 1,000 values has a larger tree on demand, of at most 10,000', () => {
    const list = (values: number) => Buffer.from(JSON.stringify(Array.from({ length: values - 1 }, () => 1)));
    const shown = (values: number, whole: boolean) => {
      const { complete, moreValues } = showBody(list(values), null, 'tree', whole);
      return [complete, moreValues];
    };
    expect(shown(1_000, false)).toEqual([true, null]);
    expect(shown(1_001, false)).toEqual([false, 10_000]);
    expect(shown(10_000, true)).toEqual([true, null]);
    expect(shown(10_001, true)).toEqual([false, null]);
  });

  test('of a form has a table of its fields', () => {
    const body = Buffer.from('a=1&payload=%7B%22b%22%3A%5B%5D%7D');
    expect(showBody(body, 'application/x-www-form-urlencoded; charset=utf-8', null)).toMatchObject({
      view: 'form',
      views: ['form', 'raw', 'hex', 'diff'],
      form: {
        fields: [
          { name: 'a', value: '1' },
          { name: 'payload', value: '{\n  "b": []\n}' },
        ],
        more: 0,
      },
    });
  });
});

const line = (kind: string, text: string) => ({ kind, text });
const named = { id: 'previous', received_at: '2026-01-01T00:00:00.000Z' };
const diff = (before: string | Buffer, after: string | Buffer) =>
  diffOf(Buffer.from(after), { ...named, body: Buffer.from(before) });

test('JSON is compared by members, whatever its white space', () => {
  expect(diff('{"a":1,"b":2,"c":3}', '{ "a": 1,\n"b": 20, "c": 3 }')).toEqual({
    previous: named,
    complete: true,
    groups: [
      [
        ...[line('same', '{'), line('same', '  "a": 1,'), line('removed', '  "b": 2,'), line('added', '  "b": 20,')],
        ...[line('same', '  "c": 3'), line('same', '}')],
      ],
    ],
  });
});

test.each<[string, string | Buffer, string | Buffer, object]>([
  ['equal bodies have no groups', '{"a":1}', '{"a": 1}', { groups: [] }],
  ['text is compared as it is', 'a=1', 'a=2', { groups: [[line('removed', 'a=1'), line('added', 'a=2')]] }],
  ['changes far apart are two groups', `a\n${'x\n'.repeat(20)}b`, `A\n${'x\n'.repeat(20)}B`, { groups: [{}, {}] }],
  ['bytes that are not text are not compared', Buffer.from([0, 1]), 'a', { groups: null }],
  ['100 changed lines are shown', 'a\n'.repeat(100), 'b\n'.repeat(100), { complete: true, groups: [{}] }],
  ['more are too different', 'a\n'.repeat(101), 'b\n'.repeat(101), { groups: null }],
  [
    'only the beginning of a longer text is compared',
    `${'x'.repeat(65_536)}a`,
    `${'x'.repeat(65_536)}b`,
    { complete: false, groups: [] },
  ],
])('%s', (_, before, after, expected) => {
  expect(diff(before, after)).toMatchObject(expected);
});

test('without an earlier event there is nothing to compare with', () => {
  expect(diffOf(Buffer.from('a'), undefined)).toEqual({ previous: null, groups: null, complete: true });
});

test.each([
  ['a=1&b=x+y%21', { a: '1', b: 'x y!' }],
  ['%=%zz', { '%': '%zz' }],
  ['p={"a":', { p: '{"a":' }],
])('the form body %j has these fields', (text, expected) => {
  expect(formFields(Buffer.from(text))!.fields).toEqual(
    Object.entries(expected).map(([name, value]) => ({ name, value })),
  );
});

test('a repeated field of a form is shown each time', () => {
  expect(formFields(Buffer.from('a&a=2'))!.fields).toEqual(['', '2'].map((value) => ({ name: 'a', value })));
});

test('of more fields than shown, the rest is counted', () => {
  const body = (count: number) => Buffer.from(Array.from({ length: count }, (_, i) => `f${i}=1`).join('&'));
  expect(formFields(body(FIELDS_MAX))).toMatchObject({ more: 0 });
  expect(formFields(body(FIELDS_MAX + 1))).toMatchObject({ more: 1 });
});

test.each([
  ['elements', '<a x="1"><b>text</b><c/></a>', '<a x="1">\n  <b>text</b>\n  <c/>\n</a>'],
  ['an empty element', '<a></a>', '<a></a>'],
  ['a comment and CDATA', '<a><!-- <b> --><![CDATA[<c>]]></a>', '<a>\n  <!-- <b> -->\n  <![CDATA[<c>]]>\n</a>'],
  ['text beside elements', '<a>one<b/>two</a>', '<a>\n  one\n  <b/>\n  two\n</a>'],
  ['too many ends', '</a></b><c/>', '</a>\n</b>\n<c/>'],
  ['what never ends', '<a><!-- x', '<a>\n  <!-- x'],
])('XML with %s is indented', (_what, text, expected) => {
  expect(prettyXml(text)).toBe(expected);
});

test('an end tag of 64 KB of blanks takes no longer than other text', () => {
  const began = performance.now();
  expect(prettyXml(`<a></a${' '.repeat(65_000)}x>`)).toMatch(/^<a>\n<\/a {65000}x>$/);
  expect(performance.now() - began).toBeLessThan(500);
});

test('indenting changes only white space, in any text', () => {
  const hostile = fc.string({ unit: fc.constantFrom('<', '>', '/', '!', '-', '[', ']', '?', 'a', ' ', '\n') });
  fc.assert(
    fc.property(hostile, (text) => {
      expect(prettyXml(text).replace(/\s/g, '')).toBe(text.replace(/\s/g, ''));
    }),
  );
});
