import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { returnAddress } from '../../../server/manage/auth/sign-in.ts';

const PUBLIC_URL = 'https://weir.example';

describe('the return address after a sign-in', () => {
  test.each([
    ['/', `${PUBLIC_URL}/`],
    ['/events?q=a%20b#c', `${PUBLIC_URL}/events?q=a%20b#c`],
    ['/a/../b', `${PUBLIC_URL}/b`],
    ['/?next=https://evil.example', `${PUBLIC_URL}/?next=https://evil.example`],
    [`/${'a'.repeat(1515)}`, `${PUBLIC_URL}/${'a'.repeat(1515)}`],
    // The path looks like another host only on its own: it is sent as a complete URL.
    ['/.//evil.example', `${PUBLIC_URL}//evil.example`],
  ])('%s leads to a page of Weir', (path, address) => {
    expect(returnAddress(path, PUBLIC_URL)).toBe(address);
  });

  test.each([
    null,
    undefined,
    '',
    'events',
    'https://evil.example',
    'https://weir.example/events',
    '//evil.example',
    '///evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/\t/evil.example',
    '/\n/evil.example',
    '/\r\\evil.example',
    'javascript:alert(1)',
    'data:text/html,x',
    ' //evil.example',
    '@evil.example',
    '.evil.example',
    '//weir.example:444/',
    '//[',
    `/${'a'.repeat(1516)}`,
  ])('%j leads to the overview', (path) => {
    expect(returnAddress(path, PUBLIC_URL)).toBe(`${PUBLIC_URL}/`);
  });

  test('no input leads to another site', () => {
    const hostile = fc.array(fc.constantFrom('/', '\\', '\t', '\n', '.', '@', ':', '?', '#', '%', 'evil.example', 'a'));
    fc.assert(
      fc.property(
        fc.oneof(
          hostile.map((parts) => parts.join('')),
          fc.string({ unit: 'binary' }),
        ),
        (path) => {
          expect(new URL(returnAddress(path, PUBLIC_URL), 'https://elsewhere.example').origin).toBe(PUBLIC_URL);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});
