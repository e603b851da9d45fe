import { expect, test } from 'vitest';
import { browserName } from '../../server/pages/account/account.ts';
import { about, address, bytes, milliseconds, names, plural, span, timeField, utc } from '../../server/pages/show.ts';

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1_000, '1.0 KB'],
  [19_250, '19.3 KB'],
  [999_499, '999 KB'],
  [999_500, '1.0 MB'],
  [2_500_000_000, '2.5 GB'],
])('%i bytes are %s', (count, text) => {
  expect(bytes(count)).toBe(text);
});

test.each([
  [0.84, '0.8 ms'],
  [12.4, '12 ms'],
  [1_500, '1.5 s'],
  [42_000, '42 s'],
])('%f ms are %s', (value, text) => {
  expect(milliseconds(value)).toBe(text);
});

test.each([
  [0, true, '0'],
  [0, false, 'few'],
  [12_000, false, 'about 12,000'],
])('a number %i, exact: %s, is %s', (value, exact, text) => {
  expect(about(value, exact)).toBe(text);
});

const NOW_MS = Date.UTC(2026, 0, 31, 12, 0, 0);
test.each([
  [-5, '< 1 min'],
  [59, '< 1 min'],
  [60, '1 min'],
  [3_599, '59 min'],
  [3_600, '1 h'],
  [86_399, '23 h'],
  [86_400, '1 day'],
  [200_000, '2 days'],
])('%i seconds ago is displayed as %s ago', (seconds, text) => {
  expect(span(new Date(NOW_MS - seconds * 1000).toISOString(), NOW_MS)).toBe(text);
});

test('one is singular', () => {
  expect([plural(1, 'event'), plural(0, 'event'), plural(2_000, 'delivery', 'deliveries')]).toEqual([
    '1 event',
    '0 events',
    '2,000 deliveries',
  ]);
});

test('a time is in UTC until the browser converts it', () => {
  expect(utc('2026-11-21T09:54:24.276Z')).toBe('2026-11-21 09:54:24 UTC');
});

test('a URL contains its parameters, encoded', () => {
  expect(address('/events', { q: 'a&b=ü', cursor: null, from: '', state: undefined })).toBe('/events?q=a%26b%3D%C3%BC');
  expect(address('/events', {})).toBe('/events');
});

test.each([
  ['2026-11-21T09:54:24Z', '2026-11-21T09:54:24'],
  ['2026-11-21T09:54', '2026-11-21T09:54:00'],
  ['2026-11-21T09:54:24.500+02:00', '2026-11-21T07:54:24'],
  ['yesterday', 'yesterday'],
])('%s is displayed in a field as %s', (given, shown) => {
  expect(timeField(given)).toBe(shown);
});

test.each([
  [0, ''],
  [2, 'first, …00000001'],
  [10, 'first, …00000001, …00000002, …00000003, …00000004, …00000005, …00000006, …00000007, …00000008, …00000009'],
  [1_012, /^first, .*, …00000009 and 1,002 more$/],
])('the names of %i ids are %s', (count, text) => {
  const ids = Array.from({ length: count }, (_, i) => `id-${String(i).padStart(8, '0')}`);
  expect(names(ids, { 'id-00000000': 'first' })).toMatch(typeof text === 'string' ? new RegExp(`^${text}$`) : text);
});

const chrome = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0';
test.each([
  ['Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0', 'Firefox on Linux'],
  [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${chrome} Safari/537.36`, 'Chrome on Windows'],
  [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${chrome} Safari/537.36 Edg/140.0.0.0`, 'Edge on Windows'],
  ['Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/140.0.0.0 Safari/537.36', 'Chrome on Linux'],
  [`Mozilla/5.0 (Linux; Android 10; K) ${chrome} Mobile Safari/537.36`, 'Chrome on Android'],
  [
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15',
    'Safari on macOS',
  ],
  [
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0 Mobile/15E148 Safari/604.1',
    'Chrome on an iPhone',
  ],
  ['curl/8.5.0', 'curl'],
  ['python-requests/2.32.3', 'python-requests/2.32.3'],
  ['x'.repeat(500), 'x'.repeat(40)],
  ['', 'Unknown'],
])('the User-Agent %s is shown as %s', (userAgent, name) => {
  expect(browserName(userAgent)).toBe(name);
});
