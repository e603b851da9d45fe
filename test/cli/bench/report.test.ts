import { createHistogram } from 'node:perf_hooks';
import { describe, expect, test } from 'vitest';
import { benchReportOf, describeReport, drawBars, drawSvg, interpret } from '../../../server/cli/bench/report.ts';
import { type BenchRun, faultsOf, runOf } from '../../../server/operate/load/results.ts';
import type { Window } from '../../../server/operate/load/window.ts';

const order = { seconds: 10, bodyBytes: 1024, connections: 256, senders: 1 };
const quiet = { cores: 4, load_before: 0.1, in_memory: false };

function run(workers: number, rate: number, given: Partial<BenchRun> = {}): BenchRun {
  return {
    workers,
    requests_per_second: rate,
    latency_ms: { p50: 9.5, p99: 19, max: 40 },
    process_memory_mb: 157.3,
    cores_used: { weir: 1, postgres: 0.5, senders: 0.4, others: 0 },
    cpu_us: { event_loop: 40.5, signatures: 9, other_threads: 3, postgres: 20 },
    statuses: { 202: 10 * rate },
    errors: {},
    accepted: 10 * rate,
    stored: 10 * rate,
    ...given,
  };
}

const report = (runs: BenchRun[], machine = quiet) =>
  benchReportOf({ ...order, workers: runs.map(({ workers }) => workers) }, runs, machine);
const said = (runs: BenchRun[], machine = quiet) => interpret(report(runs, machine)).join('\n');

test('the reports of the sender threads are merged', () => {
  const reportOfSender = (latenciesUs: number[], windowMs: number, errors = {}) => {
    const histogram = createHistogram();
    for (const us of latenciesUs) histogram.record(us);
    return { statuses: { 202: 5 }, errors, windowMs, latenciesUs: histogram };
  };
  const window: Window = {
    reports: [reportOfSender([1000, 2000], 1000), reportOfSender([3000, 4000], 2000, { ECONNRESET: 1 })],
    residentBytes: 157_300_000,
    cores: { weir: 0.987, postgres: 0.4, senders: 0.3, others: 0.126 },
    processor: { eventLoop: 400, signatures: 36, other: 12.04, postgres: 80 },
  };
  expect(runOf(2, window, 10)).toMatchObject({
    workers: 2,
    requests_per_second: 3,
    process_memory_mb: 157.3,
    cores_used: { weir: 0.99, others: 0.13 },
    cpu_us: { event_loop: 100, signatures: 9, other_threads: 3, postgres: 20 },
    statuses: { 202: 10 },
    errors: { ECONNRESET: 1 },
    accepted: 10,
    stored: 10,
  });
});

test('a window without a response has no latency', () => {
  const silent = { statuses: {}, errors: {}, windowMs: 1000, latenciesUs: createHistogram() };
  const window: Window = {
    reports: [silent],
    residentBytes: 0,
    cores: { weir: 0, postgres: 0, senders: 0, others: 0 },
    processor: { eventLoop: 1, signatures: 0, other: 0, postgres: 0 },
  };
  expect(runOf(1, window, 0)).toMatchObject({
    requests_per_second: 0,
    latency_ms: { p50: null, p99: null, max: null },
    cpu_us: null,
    accepted: 0,
  });
});

describe('a run is invalid', () => {
  test.each([
    ['with other answers', { statuses: { 202: 10, 429: 3 } }, 'WORKERS=1: 3 responses were 429, not 202.'],
    [
      'with a full queue',
      { statuses: { 202: 10, 503: 3 } },
      'WORKERS=1: 3 responses were 503, not 202; if the requests exceed the memory limit of Weir, lower --connections or --size.',
    ],
    ['with broken connections', { errors: { ECONNRESET: 2 } }, 'WORKERS=1: 2 connections failed (ECONNRESET).'],
    ['without answers', { accepted: 0, stored: 0 }, 'WORKERS=1: no request was answered 202.'],
    ['with an event lost', { stored: 9 }, 'WORKERS=1: 10 requests were answered 202, but 9 events are stored.'],
    ['with an event too many', { stored: 11 }, 'WORKERS=1: 10 requests were answered 202, but 11 events are stored.'],
  ])('%s', (_, given, fault) => {
    expect(faultsOf(run(1, 1, given))).toEqual([fault]);
  });

  test('a request in progress when its connection broke may be stored without a 202', () => {
    const faults = faultsOf(run(1, 1, { errors: { ECONNRESET: 1 }, stored: 11 }));
    expect(faults).toEqual(['WORKERS=1: 1 connections failed (ECONNRESET).']);
  });

  test('then only that cause is reported', () => {
    const text = describeReport(report([run(1, 1, { stored: 9 })]));
    expect(text).toContain('Answered 202, warm-up included: 10. Stored: 9.\n\nWORKERS=1: 10 requests were');
    expect(text).not.toContain('shared');
  });
});

test('the table compares with the first run', () => {
  expect(describeReport(report([run(1, 22_300), run(2, 33_450)]))).toContain(
    [
      'PROCESSES  REQUESTS/S  TIMES THE FIRST  P50 MS  P99 MS  MB PER PROCESS  CORES OF WEIR + POSTGRES + SENDERS  CPU US',
      '1          22,300      1.00             9.5     19      157             1 + 0.5 + 0.4                       40.5 + 9 + 3 + 20',
      '2          33,450      1.50             9.5     19      157             1 + 0.5 + 0.4                       40.5 + 9 + 3 + 20',
      '',
      'CPU us: processor time per request in microseconds: event loop + signature threads + other threads of Weir + Postgres.',
      'Answered 202, warm-up included: 557,500. Stored: 557,500.',
    ].join('\n'),
  );
});

/** What the cores were used for. */
const used = (weir: number, postgres: number, senders: number, others: number) => ({
  cores_used: { weir, postgres, senders, others },
});

test.each<[string, BenchRun[], string]>([
  [
    'flattens where the next step gains less than a tenth, in any order of measurement',
    [run(4, 31_000), run(1, 20_000), run(2, 30_000)],
    'The curve flattens at WORKERS=2: WORKERS=4 reached 1.03 times as much; the maximum was 31,000 requests/s with WORKERS=4.',
  ],
  [
    'can rise to its end',
    [run(1, 20_000), run(2, 30_000)],
    'The curve rises to the end: the maximum was 30,000 requests/s with WORKERS=2.',
  ],
  [
    'is limited by the cores when all are used',
    [run(2, 20_000, used(2.1, 1, 0.8, 0.3))],
    '3.9 of 4 cores were in use with WORKERS=2: cores are the limit',
  ],
  [
    'has another limit when cores are idle',
    [run(1, 20_000)],
    '1.9 of 4 cores were in use with WORKERS=1: Weir also waited',
  ],
  ['can be limited by the senders', [run(1, 20_000, used(1, 0.5, 0.95, 0))], 'Try --senders 2.'],
])('the curve %s', (_, runs, finding) => {
  expect(said(runs)).toContain(finding);
});

test('one point draws no curve, other programs hide every limit, and a database in memory is named', () => {
  expect(said([run(1, 20_000)])).not.toContain('curve');
  const busy = said([run(1, 20_000, used(1, 0.5, 0.95, 0.41)), run(2, 90_000)]);
  expect(busy).toContain('The machine is busy: other programs used 0.4 of its 4 cores during a measurement.');
  expect(busy).not.toMatch(/curve|limit|Try/);
  expect(said([run(1, 20_000)], { ...quiet, in_memory: true })).toContain('set TMPDIR to a directory on the disk of');
});

const drawn = [
  { workers: 2, requests_per_second: 1500 },
  { workers: 1, requests_per_second: 1000 },
  { workers: 4, requests_per_second: 2000 },
];

test('bars are as long as the figures, with a mark at proportional growth where it fits', () => {
  const lines = drawBars(drawn)
    .split('\n')
    .map((line) => line.replace(/█+/, (bar) => `[${bar.length}]`).replace(/ +/g, ' '));
  expect(lines).toEqual([
    'Requests/s by WORKERS; | is the first figure in proportion:',
    '1 [25] 1,000',
    '2 [38] | 1,500',
    '4 [50] 2,000',
    '',
  ]);
});

test('runs without a response are drawn', () => {
  expect(drawBars([{ workers: 1, requests_per_second: 0 }])).toContain(' 0\n');
  expect(drawSvg([{ workers: 1, requests_per_second: 0 }], '')).not.toMatch(/NaN|Infinity/);
});

test('the bars of the SVG are in proportion to the figures', () => {
  const svg = drawSvg(drawn, 'figures');
  expect([...svg.matchAll(/H([\d.]+)v16H60z/g)].map(([, end]) => Number(end) - 60)).toEqual([240, 360, 480]);
  expect(svg).toContain('>2,000</text>');
});
