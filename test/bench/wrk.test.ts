import { expect, test } from 'vitest';
import { parseWrk } from '../../bench/lib/wrk.ts';

const line = (fields: object) =>
  `Running 2s test @ http://127.0.0.1\n  9 requests in 2.00s\nWRK-SUMMARY ${JSON.stringify(fields)}\n`;

test('the last line of wrk is converted to rates and milliseconds, and refusals are not 2xx', () => {
  const fields = {
    requests: 50_000,
    microseconds: 2_000_000,
    status: 7,
    socket: 1,
    p50: 9_500,
    p99: 41_000,
    max: 187_500,
  };
  expect(parseWrk(line(fields))).toEqual({
    requestsPerSecond: 25_000,
    answers2xx: 49_993,
    answersOther: 7,
    socketErrors: 1,
    p50Ms: 9.5,
    p99Ms: 41,
    maxMs: 187.5,
  });
});

test('an output without figures is included in the error', () => {
  expect(() => parseWrk('unable to connect to 127.0.0.1:1 Connection refused\n')).toThrow('Connection refused');
});
