import { describe, expect, test } from 'vitest';
import { showBody } from '../../server/pages/body-view.ts';

const json = Buffer.from('{"a":[1]}');
const binary = Buffer.from([0, 1, 0xff, 0x41]);

describe('a body', () => {
  test.each([
    ['JSON is readable by itself', json, null, 'pretty', '{\n  "a": [\n    1\n  ]\n}'],
    ['JSON as it is', json, 'raw', 'raw', '{"a":[1]}'],
    ['text is shown as it is', Buffer.from('a=b'), null, 'raw', 'a=b'],
    ['text that is asked for as JSON, too', Buffer.from('a=b'), 'pretty', 'raw', 'a=b'],
    ['an unknown view is the most readable', json, 'nonsense', 'pretty', '{\n  "a": [\n    1\n  ]\n}'],
    ['bytes that are no text are shown in hex', binary, null, 'hex', `00000000  00 01 ff 41${' '.repeat(37)}  ...A`],
    ['bytes that are no text, asked for as text', binary, 'raw', 'hex', `00000000  00 01 ff 41${' '.repeat(37)}  ...A`],
  ])('%s', (_, body, wanted, view, text) => {
    expect(showBody(body, wanted)).toMatchObject({ view, text, shownBytes: null });
  });

  test.each([
    ['JSON', json, ['pretty', 'raw', 'hex']],
    ['text', Buffer.from('a=b'), ['raw', 'hex']],
    ['nothing', Buffer.alloc(0), ['raw', 'hex']],
    ['bytes that are no text', binary, ['hex']],
  ])('that is %s has these views', (_, body, views) => {
    expect(showBody(body, null).views).toEqual(views);
  });

  test('of 65,536 bytes is shown completely, one more byte is cut at a character boundary', () => {
    expect(showBody(Buffer.alloc(65_536, 'a'), 'raw').shownBytes).toBeNull();
    expect(showBody(Buffer.alloc(65_537, 'a'), 'raw').shownBytes).toBe(65_536);
    const cut = showBody(Buffer.from(`${'a'.repeat(65_535)}ü`), 'raw');
    expect([cut.view, cut.shownBytes]).toEqual(['raw', 65_535]);
  });

  test('has at most 8,192 bytes in hex', () => {
    expect(showBody(Buffer.alloc(8_192), 'hex').shownBytes).toBeNull();
    const cut = showBody(Buffer.alloc(8_193), 'hex');
    expect([cut.shownBytes, cut.text.split('\n').length]).toEqual([8_192, 512]);
  });
});
