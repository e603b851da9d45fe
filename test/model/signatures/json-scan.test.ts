import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compilePath,
  SCANNED_BYTES_MAX,
  SCANNED_MEMBERS_MAX,
  scanJson,
} from '../../../server/model/signatures/json-scan.ts';

const scan = (text: string | Uint8Array, ...names: string[]) =>
  scanJson(typeof text === 'string' ? Buffer.from(text) : text, compilePath(names));

const spaced = fc.constantFrom(undefined, 1, '\t', '\r\n');

describe('a scan is bounded', () => {
  const members = (count: number, name: string) => `{${`"${name}":0,`.repeat(count)}"a b":1}`;
  const items = (count: number) => `[${'0,'.repeat(count)}1]`;
  const far = (bytes: number) => `{"x":"${'y'.repeat(bytes - '{"x":"","a b":1,'.length)}","a b":1,"z":[]}`;
  test.each([
    ['as many members as allowed', members(SCANNED_MEMBERS_MAX - 1, ''), 'a b', '1'],
    ['one member more', members(SCANNED_MEMBERS_MAX, ''), 'a b', null],
    ['as many escaped names as allowed', members(SCANNED_MEMBERS_MAX / 11, '\\n'), 'a b', '1'],
    ['too many escaped names', members(SCANNED_MEMBERS_MAX / 10, '\\n'), 'a b', null],
    ['as many items as allowed', items(SCANNED_MEMBERS_MAX), String(SCANNED_MEMBERS_MAX), '1'],
    ['one item more', items(SCANNED_MEMBERS_MAX + 1), String(SCANNED_MEMBERS_MAX + 1), null],
    ['a member at the end of the bytes', far(SCANNED_BYTES_MAX), 'a b', '1'],
    ['a member behind them', far(SCANNED_BYTES_MAX + 2), 'a b', null],
  ])('%s', (_, text, name, value) => {
    expect(scan(text, name)).toBe(value);
  });
});

describe('a scan', () => {
  test('finds what JSON.parse finds, in any document', () => {
    const name = fc.oneof(
      fc.constantFrom('type', 'a/b', '~', 'é', '0', ''),
      fc.string({ unit: 'binary', maxLength: 3 }),
    );
    const { document } = fc.letrec((tie) => ({
      document: fc.oneof({ depthSize: 'small' }, fc.json().map(JSON.parse), tie('object'), tie('array')),
      object: fc.dictionary(name, tie('document'), { maxKeys: 4 }),
      array: fc.array(tie('document'), { maxLength: 3 }),
    }));
    fc.assert(
      fc.property(document, spaced, fc.array(name, { minLength: 1, maxLength: 3 }), (value, space, path) => {
        const text = JSON.stringify(value, null, space);
        expect(scan(text, ...path)).toBe(found(JSON.parse(text), path));
      }),
      { numRuns: 300 },
    );
  });

  test('of bytes that are not JSON never throws, and finds nothing in a truncated text', () => {
    const bytes = fc.uint8Array({ maxLength: 60 });
    const nearly = fc.array(fc.constantFrom('{', '}', '[', ']', '"', '"type"', ':', ',', '\\', '\\u00', '1', ' ', 'é'));
    fc.assert(
      fc.property(
        fc.oneof(
          bytes,
          nearly.map((parts) => Buffer.from(`{"type"${parts.join('')}`)),
        ),
        (body) => {
          const value = scan(body, 'type');
          if (value !== null) expect([...body].includes(0x7b)).toBe(true);
        },
      ),
    );
    const text = '{"a":[{"type":"no"}],"type":"yes"}';
    expect(scan(text, 'type')).toBe('yes');
    for (let length = 0; length < text.length; length++) expect(scan(text.slice(0, length), 'type')).toBeNull();
  });

  test.each([
    ['an escaped name', '{"a\\/b":"x"}', ['a/b'], 'x'],
    ['a name in escapes only', '{"\\u00e9":"x"}', ['é'], 'x'],
    ['the first of two members', '{"type":"first","type":"second"}', ['type'], 'first'],
    ['escapes', '{"type":"a\\u0041\\n\\"\\\\"}', ['type'], 'aA\n"\\'],
    ['a number as it is written', '{"type":1.50e2}', ['type'], '1.50e2'],
    ['an item of an array', '[{"type":"a"},{"type":"b"}]', ['1', 'type'], 'b'],
    ['no item after the last', '[1]', ['1'], null],
    ['no item of an empty array', '[]', ['0'], null],
    ['no item at an index with a leading zero', '["a","b"]', ['01'], null],
    ['no member inside a string', '{"a":"\\"type\\":\\"no\\"","b":1}', ['type'], null],
    ['no object', '{"type":{"a":1}}', ['type'], null],
    ['no true', '{"type":true}', ['type'], null],
    ['no broken escape', '{"type":"\\x"}', ['type'], null],
    ['no value that is missing', '{"type":,"a":1}', ['type'], null],
    ['nothing in a text', '"type"', ['type'], null],
    ['nothing in an empty body', '', ['type'], null],
  ])('finds %s', (_what, text, path, value) => {
    expect(scan(text, ...path)).toBe(value);
  });

  test('cuts a long value to 200 characters, also one in escapes', () => {
    expect(scan(`{"type":"${'x'.repeat(200)}"}`, 'type')).toBe('x'.repeat(200));
    expect(scan(`{"type":"${'é'.repeat(900)}"}`, 'type')).toBe('é'.repeat(200));
    for (let before = 0; before < 7; before++) {
      const value = scan(`{"type":"${'x'.repeat(before)}${'\\u0041'.repeat(100_000)}"}`, 'type');
      expect(value).toBe('x'.repeat(before) + 'A'.repeat(200 - before));
    }
  });

  test.each([
    ['of brackets', `{"a":${'['.repeat(1_048_000)}`, null],
    ['of closed brackets', `{"a":${'['.repeat(500_000)}${']'.repeat(500_000)},"type":"x"}`, 'x'],
    ['of escaped quotes', `{"a":"${'\\"'.repeat(520_000)}","type":"x"}`, 'x'],
    ['of backslashes', `{"a":"${'\\\\'.repeat(520_000)}","type":"x"}`, 'x'],
    ['of one string', `{"a":"${'x'.repeat(1_000_000)}","type":"x"}`, 'x'],
    ['of empty members', `{${'"":"",'.repeat(170_000)}"type":"x"}`, null],
  ])('reads a mebibyte %s in linear time', (_what, text, value) => {
    const body = Buffer.from(text);
    const before = process.cpuUsage();
    for (let i = 0; i < 5; i++) expect(scan(body, 'type')).toBe(value);
    // CPU time, 20 ms each on a slow machine: a quadratic scan takes minutes.
    expect(process.cpuUsage(before).user / 1e6).toBeLessThan(20);
  });
});

/** The expected result, by JSON.parse. Documents of JSON.stringify have no duplicate names. */
function found(value: unknown, path: readonly string[]): string | null {
  let at = value;
  for (const name of path) {
    const isContainer = typeof at === 'object' && at !== null;
    if (!isContainer || !Object.hasOwn(at as object, name)) return null;
    if (Array.isArray(at) && !/^\d+$/.test(name)) return null;
    at = (at as Record<string, unknown>)[name];
  }
  if (typeof at === 'number') return JSON.stringify(at);
  return typeof at === 'string' ? at.slice(0, 200) : null;
}
