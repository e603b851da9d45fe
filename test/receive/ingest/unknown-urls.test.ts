/** Requests to URLs of no webhook: the frequent ones stay, and strangers fill no memory. */
import { expect, test } from 'vitest';
import { CLIENT_PATHS_MAX, UNKNOWN_URLS_MAX, UnknownUrls } from '../../../server/receive/ingest/unknown-urls.ts';

const nowMs = Date.parse('2026-01-01T00:00:00Z');
const pathsOf = (urls: UnknownUrls) => urls.top(1_000).map(({ path, requests }) => [path, requests]);

test('a client has a row for each path up to the limit, and one row for all further ones', () => {
  const urls = new UnknownUrls();
  for (let path = 0; path < CLIENT_PATHS_MAX; path++) urls.note('192.0.2.1', `/in/${path}`, nowMs);
  expect(pathsOf(urls)).toEqual([0, 1, 2, 3].map((path) => [`/in/${path}`, 1]));
  for (const path of ['more', 'much-more']) urls.note('192.0.2.1', `/in/${path}`, nowMs + 1_000);
  urls.note('192.0.2.1', '/in/0', nowMs);
  expect(pathsOf(urls)).toHaveLength(CLIENT_PATHS_MAX + 1);
  expect(urls.top(2)).toEqual([
    { client: '192.0.2.1', path: '/in/0', requests: 2, last_at: '2026-01-01T00:00:00.000Z' },
    { client: '192.0.2.1', path: '/in/…', requests: 2, last_at: '2026-01-01T00:00:01.000Z' },
  ]);
});

test('a frequent sender stays in the full table, however many clients send once', () => {
  const urls = new UnknownUrls();
  for (let one = 0; one < 10_000; one++) {
    if (one % 20 === 0) urls.note('192.0.2.1', '/in/gone', nowMs);
    urls.note(`2001:db8:0:${one.toString(16)}`, '/in/x', nowMs);
  }
  expect(pathsOf(urls).length).toBeLessThanOrEqual(UNKNOWN_URLS_MAX);
  const [[path, requests]] = pathsOf(urls) as [[string, number]];
  expect(path).toBe('/in/gone');
  // 500 requests, of which at most 1/101 of all 10,500 is not counted.
  expect(requests).toBeGreaterThanOrEqual(500 - 10_500 / (UNKNOWN_URLS_MAX + 1));
});

test('a long path is cut', () => {
  const urls = new UnknownUrls();
  urls.note('192.0.2.1', `/in/${'x'.repeat(10_000)}`, nowMs);
  expect(urls.top(1)[0]!.path).toHaveLength(101);
});
