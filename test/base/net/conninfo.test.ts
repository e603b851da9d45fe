import { expect, test } from 'vitest';
import { formatConninfo, parseConninfo } from '../../../server/base/net/conninfo.ts';

test.each<[string, Record<string, string>]>([
  [
    'postgres://u:p%40ss@db.example:5433/weir',
    { user: 'u', password: 'p@ss', host: 'db.example', port: '5433', dbname: 'weir' },
  ],
  ['postgresql://a,[::1]:5433/', { host: 'a,::1', port: ',5433' }],
  ['postgres:///weir?host=%2Frun%2Fpg&ssl=true&', { dbname: 'weir', host: '/run/pg', sslmode: 'require' }],
  ['postgres://%2Frun%2Fpg/weir', { host: '/run/pg', dbname: 'weir' }],
  ['postgres://u:@a?user=b', { user: 'b', host: 'a' }],
  ['postgres://', {}],
  // The user part ends at the first @, also after a question mark.
  [
    'postgres://good?sslmode=@EVIL:9/db?passfile=/path',
    { user: 'good?sslmode=', host: 'EVIL', port: '9', dbname: 'db', passfile: '/path' },
  ],
  [
    "  host = a  password='x \\' host=b\\\\' user=c\\ d\tdbname=''",
    { host: 'a', password: "x ' host=b\\", user: 'c d', dbname: '' },
  ],
  ["host='a'port=1 host=b", { host: 'b', port: '1' }],
  ['', {}],
])('a connection string is read as libpq reads it: %s', (text, parameters) => {
  const parsed = parseConninfo(text)!;
  expect(Object.fromEntries(parsed)).toEqual(parameters);
  expect(parseConninfo(formatConninfo(parsed))).toEqual(parsed);
});

test.each([
  'postgres://u:12/secret@db/weir',
  'postgres://u:secret@a.example:secret,b/weir',
  'postgres://u:secret@[db/weir',
  'postgres://u:sec@ret@db/weir',
  'postgres://u:100%@db/weir',
  'postgres://u:%ff@db/weir',
  'postgres://u:%00@db/weir',
  'postgres://db/weir?sslmode',
  'postgres://db/weir?options=a=b',
  'mysql://db/weir',
  "host='a",
  'host=a\\',
  'host',
  '=a',
  'host=a\0b',
  "a'b=c",
])('one that libpq refuses, or that is ambiguous, is not read: %s', (text) => {
  expect(parseConninfo(text)).toBe(null);
});
