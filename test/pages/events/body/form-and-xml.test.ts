import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  FIELDS_MAX,
  FORM_CHARACTERS_MAX,
  formFields,
  prettyXml,
} from '../../../../server/pages/events/body/form-and-xml.ts';

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
  expect(formFields(Buffer.from(text)).fields.map(({ name, value }) => [name, value])).toEqual(expected);
});

test('of more fields than shown, the rest is counted, without empty ones', () => {
  const body = (count: number) => Buffer.from(Array.from({ length: count }, (_, i) => `f${i}=1`).join('&'));
  expect(formFields(body(FIELDS_MAX))).toMatchObject({ more: 0 });
  expect(formFields(body(FIELDS_MAX + 1))).toMatchObject({ more: 1 });
  expect(
    formFields(
      Buffer.from(
        `&&${body(FIELDS_MAX + 2)
          .toString()
          .replaceAll('&', '&&')}&&`,
      ),
    ),
  ).toMatchObject({ more: 2 });
  const { fields, more } = formFields(body(260_000));
  expect([fields.length, fields.at(-1)!.name, more]).toEqual([FIELDS_MAX, 'f199', 260_000 - FIELDS_MAX]);
});

test('long names and values are cut, and what begins after 262,144 characters is counted', () => {
  const long = 'x'.repeat(16_385);
  expect(formFields(Buffer.from(`${long}=${long}`)).fields).toEqual([
    { name: `${long.slice(1)}…`, value: `${long.slice(1)}…` },
  ]);
  const until = (rest: string) => formFields(Buffer.from(`a=${'x'.repeat(FORM_CHARACTERS_MAX - 9)}&${rest}`));
  // Six characters after the first field are within the limit.
  expect(until('b=1&c=2')).toMatchObject({
    fields: [{}, { name: 'b', value: '1' }, { name: 'c', value: '…' }],
    more: 0,
  });
  expect(until('b=123456&c=2')).toMatchObject({ fields: [{}, { name: 'b', value: '1234…' }], more: 1 });
  expect(until('b=1234&c=2')).toMatchObject({ fields: [{}, { name: 'b', value: '1234' }], more: 1 });
});

test('a value that is too long to parse stays as it is', () => {
  const list = (spaces: number) => formFields(Buffer.from(`a=[1${' '.repeat(spaces)}]`)).fields[0]!.value;
  expect(list(10)).toBe('[\n  1\n]');
  expect(list(65_536)).toMatch(/^\[1 +…$/);
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
