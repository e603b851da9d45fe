import { expect, test } from 'vitest';
import { parseWrk } from '../../bench/lib/wrk.ts';

test('the figures of wrk are read from the line that its script printed', () => {
  const figures = {
    requestsPerSecond: 25_000,
    answers2xx: 49_993,
    answersOther: 7,
    socketErrors: 1,
    p50Ms: 9.5,
    p99Ms: 41,
  };
  const output = `Running 2s test @ http://127.0.0.1\n  9 requests in 2.00s\nWRK-SUMMARY ${JSON.stringify(figures)}\n`;
  expect(parseWrk(output)).toEqual(figures);
});

test('an output without figures is included in the error', () => {
  expect(() => parseWrk('unable to connect to 127.0.0.1:1 Connection refused\n')).toThrow('Connection refused');
});
