import { expect, test } from 'vitest';
import { diffOf } from '../../../../server/pages/events/body/view.ts';

const named = { id: 'previous', received_at: '2026-01-01T00:00:00.000Z' };
const diff = (before: string | Buffer, after: string | Buffer) =>
  diffOf(Buffer.from(after), { ...named, body: Buffer.from(before) });

test('JSON is compared by members, whatever its white space', () => {
  expect(diff('{"a":1,"b":2,"c":3}', '{ "a": 1,\n"b": 20, "c": 3 }')).toEqual({
    previous: named,
    complete: true,
    groups: [
      [
        { kind: 'same', text: '{' },
        { kind: 'same', text: '  "a": 1,' },
        { kind: 'removed', text: '  "b": 2,' },
        { kind: 'added', text: '  "b": 20,' },
        { kind: 'same', text: '  "c": 3' },
        { kind: 'same', text: '}' },
      ],
    ],
  });
});

test.each<[string, string | Buffer, string | Buffer, object]>([
  ['equal bodies have no groups', '{"a":1}', '{"a": 1}', { groups: [] }],
  [
    'text is compared as it is',
    'a=1',
    'a=2',
    {
      groups: [
        [
          { kind: 'removed', text: 'a=1' },
          { kind: 'added', text: 'a=2' },
        ],
      ],
    },
  ],
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
