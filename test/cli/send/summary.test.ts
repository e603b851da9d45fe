import { expect, test } from 'vitest';
import { describeSummary, SendTally } from '../../../server/cli/send/summary.ts';

const answered = (status: number, latencyMs: number) =>
  ({ kind: 'answered', status, retryAfterMs: null, latencyMs }) as const;

test('percentiles are computed from the sorted latencies, to three digits', () => {
  const tally = new SendTally();
  for (let ms = 1000; ms >= 1; ms--) tally.finished(answered(202, ms), 10);
  const { latency_ms, sent, bytes, statuses, requests_per_second } = tally.summary(2000, false);
  expect(latency_ms.p50).toBeCloseTo(500, -1);
  expect(latency_ms.p90).toBeCloseTo(900, -1);
  expect(latency_ms.p99).toBeCloseTo(990, -1);
  expect(latency_ms.max).toBe(1000);
  expect({ sent, bytes, statuses, requests_per_second }).toEqual({
    sent: 1000,
    bytes: 10_000,
    statuses: { 202: 1000 },
    requests_per_second: 500,
  });
});

test('without a response there are no latencies', () => {
  const tally = new SendTally();
  tally.finished({ kind: 'failed', name: 'ECONNREFUSED' }, 1);
  expect(tally.summary(10, false)).toMatchObject({
    sent: 1,
    statuses: {},
    errors: { ECONNREFUSED: 1 },
    latency_ms: { p50: null, p90: null, p99: null, max: null },
  });
});

test('the text summary contains exactly what happened', () => {
  const plain = new SendTally();
  plain.finished(answered(202, 2), 1500);
  expect(describeSummary(plain.summary(1000, false), 1)).toBe(
    '1 request in 1 s: 1 requests/s, 1,500 bytes\n  202  1\nLatency in ms: p50 2, p90 2, p99 2, max 2\n',
  );

  const eventful = new SendTally();
  eventful.repeated({ kind: 'failed', name: 'ECONNRESET' });
  eventful.late(250.04);
  eventful.finished(answered(403, 2), 1);
  eventful.finished({ kind: 'failed', name: 'ETIMEDOUT' }, 1);
  const lines = describeSummary(eventful.summary(1000, true), 2000).split('\n');
  expect(lines.slice(1)).toEqual([
    '  403  1',
    '  no response  1',
    'Latency in ms: p50 2, p90 2, p99 2, max 2',
    'Retried after: ECONNRESET (1)',
    'Lost or refused connections: ECONNRESET (1), ETIMEDOUT (1)',
    'The rate was not reached: requests were up to 250 ms late. A higher --concurrency may help.',
    'Stopped early: 2 of 2,000 requests completed.',
    '',
  ]);
});
