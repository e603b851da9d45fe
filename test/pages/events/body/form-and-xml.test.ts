import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FIELDS_MAX, formFields, prettyXml } from '../../../../server/pages/events/body/view.ts';

test.each([
  [
    'a=1&b=x+y%21',
    [
      ['a', '1'],
      ['b', 'x y!'],
    ],
  ],
  [
    'a&a=2',
    [
      ['a', ''],
      ['a', '2'],
    ],
  ],
  ['%=%zz', [['%', '%zz']]],
  ['p={"a":', [['p', '{"a":']]],
])('the form body %j has these fields', (text, expected) => {
  expect(formFields(Buffer.from(text))!.fields.map(({ name, value }) => [name, value])).toEqual(expected);
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

test('indenting changes only white space, in any text', () => {
  const hostile = fc.string({ unit: fc.constantFrom('<', '>', '/', '!', '-', '[', ']', '?', 'a', ' ', '\n') });
  fc.assert(
    fc.property(hostile, (text) => {
      expect(prettyXml(text).replace(/\s/g, '')).toBe(text.replace(/\s/g, ''));
    }),
  );
});
