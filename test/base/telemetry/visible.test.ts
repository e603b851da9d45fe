import { expect, test } from 'vitest';
import { visible, visibleJson, visibleLine } from '../../../server/base/telemetry/visible.ts';

test.each([
  ['\x1b]0;title\x07', '\\x1b]0;title\\x07'],
  ['a\r\nb\tc', 'a\\x0d\nb\tc'],
  ['\0\x7f\x80\x9b31m\x9f', '\\x00\\x7f\\x80\\x9b31m\\x9f'],
  ['\u202etxt\u202c \u2066a\u2069 \u200e\u200f\u061c', '\\u202etxt\\u202c \\u2066a\\u2069 \\u200e\\u200f\\u061c'],
  ['a\u2028b\u2029', 'a\\u2028b\\u2029'],
  ['ünïcode 🌊 👩‍🚀 שלום \\x1b', 'ünïcode 🌊 👩‍🚀 שלום \\x1b'],
])('%j is shown as %j', (text, shown) => {
  expect(visible(text)).toBe(shown);
  expect(visibleLine(text)).toBe(shown.replaceAll('\n', '\\x0a').replaceAll('\t', '\\x09'));
});

test('every control character and every direction character is escaped', () => {
  for (let code = 0; code <= 0xffff; code++) {
    const character = String.fromCharCode(code);
    const acts = /\p{Cc}|\p{Bidi_Control}/u.test(character) && !'\n\t'.includes(character);
    if (acts) expect(visible(character), code.toString(16)).not.toContain(character);
  }
});

test('JSON remains the same document, without characters that control a terminal', () => {
  const document = { text: Array.from({ length: 0x2100 }, (_, code) => String.fromCharCode(code)).join('') };
  const json = visibleJson(JSON.stringify(document));
  expect(JSON.parse(json)).toEqual(document);
  expect(json).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
});
