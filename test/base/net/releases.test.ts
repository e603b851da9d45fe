import { expect, test } from 'vitest';
import { release } from '../../../server/base/files/build.ts';
import { releaseOf, updateOf, userAgent } from '../../../server/base/net/releases.ts';

const other = '/client-9.1.0-5f1c0e9a7b3d.tgz';
const both = `This client is of release ${release()} and the server of 9.1.0`;

test('the server reads the release of a client, and of no other program', () => {
  expect(releaseOf(userAgent())).toBe(release());
  for (const agent of [undefined, '', 'weir', 'weir-send', 'curl/8.0', 'weir/unknown', `weir/1${'0'.repeat(40)}`])
    expect(releaseOf(agent), agent).toBeNull();
});

test.each([
  ['https://weir.example.org/', ` with npm install https://weir.example.org${other}.`],
  ['https://example.org/weir/', ` with npm install https://example.org/weir${other}.`],
  ['http://127.0.0.1:8080/', ` with npm install http://127.0.0.1:8080${other}.`],
  ['http://weir.example.org/', '.'],
])('the client names the package of another release at %s', (base, end) => {
  expect(updateOf(base, other)).toBe(`${both}: install the client of the server${end}`);
});

test.each([
  undefined,
  '',
  `/client-${release()}-5f1c0e9a7b3d.tgz`,
  `https://evil.example${other}`,
  `/client-9.1.0-5f1c0e9a7b3d.tgz; rm -r .`,
  '/client-latest-5f1c0e9a7b3d.tgz',
])('the client advises nothing for the path %j', (path) => {
  expect(updateOf('https://weir.example.org/', path)).toBeNull();
});
