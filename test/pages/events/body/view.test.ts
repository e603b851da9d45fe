import { describe, expect, test } from 'vitest';
import { showBody } from '../../../../server/pages/events/body/view.ts';

const json = Buffer.from('{"a":[1]}');
const binary = Buffer.from([0, 1, 0xff, 0x41]);

describe('a body', () => {
  test.each([
    ['JSON formatted', json, 'pretty', 'pretty', '{\n  "a": [\n    1\n  ]\n}'],
    ['hidden characters of JSON as escapes', Buffer.from('["\u202e"]'), 'pretty', 'pretty', '[\n  "\\u202e"\n]'],
    ['JSON as it is', json, 'raw', 'raw', '{"a":[1]}'],
    ['text is shown as it is', Buffer.from('a=b'), null, 'raw', 'a=b'],
    ['text that is asked for as JSON, too', Buffer.from('a=b'), 'pretty', 'raw', 'a=b'],
    [
      'XML is indented',
      Buffer.from('<?xml version="1.0"?><a><b>1</b></a>'),
      null,
      'xml',
      '<?xml version="1.0"?>\n<a>\n  <b>1</b>\n</a>',
    ],
    ['an unknown view is the most readable', Buffer.from('a'), 'nonsense', 'raw', 'a'],
    ['bytes that are not text are shown in hex', binary, null, 'hex', `00000000  00 01 ff 41${' '.repeat(37)}  ...A`],
    [
      'bytes that are not text, asked for as text',
      binary,
      'raw',
      'hex',
      `00000000  00 01 ff 41${' '.repeat(37)}  ...A`,
    ],
  ])('%s', (_, body, wanted, view, text) => {
    expect(showBody(body, null, wanted)).toMatchObject({ view, text, shownBytes: null });
  });

  test.each([
    ['JSON', json, ['tree', 'pretty', 'raw', 'hex', 'diff']],
    [
      'JSON of more than 64 KiB',
      Buffer.from(JSON.stringify('a'.repeat(70_000))),
      ['tree', 'pretty', 'raw', 'hex', 'diff'],
    ],
    ['JSON of more than 2 MiB', Buffer.from(JSON.stringify('a'.repeat(2_097_152))), ['raw', 'hex', 'diff']],
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
