import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { comparisonsOf } from '../../bench/compare.ts';
import { BARE } from '../../bench/lib/contestants.ts';
import { type BenchOutcome, type Goal, type Scenario, tabulate } from '../../bench/lib/outcome.ts';
import { benchRecordOf, isMet, keepRecord, renderReport, renderTable } from '../../bench/lib/report.ts';
import { formatNumber, formatSpread, percentile, ratioByRound, spreadOf } from '../../bench/lib/stats.ts';
import { parseWrk } from '../../bench/lib/wrk.ts';
import { temporaryDirectory } from '../helpers/settings.ts';

const machine = { cpu: 'a chip', cores: 2, memory: '8 GiB', node: 'v20.0.0', kernel: '6.1', commit: 'abc1234' };
const conditions = { rounds: 3, at: new Date(0), load: 0.25 };
const outcome: BenchOutcome = {
  tables: [{ header: ['who', 'requests/s'], rows: [['Weir', '20']] }],
  measures: [{ name: 'Weir', unit: 'requests/s', values: [10, 30, 20] }],
  ratios: [{ of: 'Weir', to: 'bare', values: [0.5, 0.4, 0.6] }],
  goals: [{ what: 'p99', value: 61, unit: 'ms', below: 60 }],
  notes: ['measured at night'],
  faults: [],
};
const scenario: Scenario = {
  name: 'example',
  summary: 'one example',
  defaults: { rounds: 3, seconds: 1 },
  run: async () => outcome,
};

test('a table is aligned, and is Markdown for the README', () => {
  const table = { header: ['who', 'rows/s'], rows: [['a long name', '1,234']] };
  expect(renderTable(table).split('\n')).toEqual([
    '| who         | rows/s |',
    '|-------------|-------:|',
    '| a long name |  1,234 |',
  ]);
});

test('a figure is a column, a measure, or both', () => {
  const all = [{ name: 'Weir', rate: [10, 30, 20], bytes: 7 }];
  expect(
    tabulate('who', all, [
      ['requests/s', ['', 'requests/s'], ({ rate }) => rate],
      ['bytes', null, ({ bytes }) => [bytes]],
      [null, ['size', 'B'], ({ bytes }) => [bytes]],
    ]),
  ).toEqual({
    table: { header: ['who', 'requests/s', 'bytes'], rows: [['Weir', '20 (10 to 30)', '7']] },
    measures: [
      { name: 'Weir', unit: 'requests/s', values: [10, 30, 20] },
      { name: 'Weir: size', unit: 'B', values: [7] },
    ],
  });
});

test.each([
  [{ value: 0.45, atLeast: 0.45 }, true],
  [{ value: 0.449, atLeast: 0.45 }, false],
  [{ value: 59.9, below: 60 }, true],
  [{ value: 60, below: 60 }, false],
])('the goal %o is met: %s', (limits, met) => {
  expect(isMet({ what: 'it', unit: '', ...limits } as Goal)).toBe(met);
});

test('the report contains the machine, the missed goals and the method', () => {
  const report = renderReport(scenario, outcome, machine, conditions);
  const texts = ['a chip', 'abc1234', 'load 0.3', '0.5 (0.4 to 0.6)', 'p99 below 60 ms', 'missed', 'measured at night'];
  for (const text of texts) expect(report).toContain(text);
  expect(report).not.toContain('invalid');
  const faulty = { ...outcome, faults: ['bare gave no response'] };
  expect(renderReport(scenario, faulty, machine, conditions)).toMatch(/invalid[\s\S]*bare gave no response/);
  expect(benchRecordOf(scenario, faulty, machine, conditions)).toMatchObject({ faults: ['bare gave no response'] });
});

test('each run adds one line to the record of its scenario', () => {
  const directory = temporaryDirectory();
  for (const at of [new Date(0), new Date(1)])
    keepRecord(join(directory, 'results'), scenario, benchRecordOf(scenario, outcome, machine, { ...conditions, at }));
  const lines = readFileSync(join(directory, 'results', 'example.jsonl'), 'utf8')
    .trimEnd()
    .split('\n');
  expect(lines).toHaveLength(2);
  expect(JSON.parse(lines[0]!)).toEqual({
    scenario: 'example',
    at: '1970-01-01T00:00:00.000Z',
    machine,
    load: 0.25,
    runs: 3,
    results: [{ name: 'Weir', median: 20, low: 10, high: 30, unit: 'requests/s' }],
    ratios: [{ of: 'Weir', to: 'bare', median: 0.5, low: 0.4, high: 0.6 }],
    goals: [{ what: 'p99', value: 61, unit: 'ms', below: 60, met: false }],
  });
});

/** Rounds of one side. */
const rounds = (figures: Record<string, [unit: string, ...values: number[]]>) => {
  const count = Object.values(figures)[0]!.length - 1;
  return Array.from(
    { length: count },
    (_, i) =>
      new Map(Object.entries(figures).map(([name, [unit, ...values]]) => [name, { unit, value: values[i]! }] as const)),
  );
};
const verdicts = (unit: string, a: number[], b: number[]) =>
  comparisonsOf(rounds({ m: [unit, ...a] }), rounds({ m: [unit, ...b] })).map(({ verdict }) => verdict);

test.each([
  ['requests/s', [100, 100, 100], [90, 91, 92], 'slower'],
  ['requests/s', [100, 100, 100], [110, 111, 112], 'faster'],
  ['us', [10, 10, 10], [12, 12.1, 12.2], 'slower'],
  ['us', [10, 10, 10], [8, 8.1, 8.2], 'faster'],
  // The ratios differ from each other more than their median from 1.
  ['us', [10, 10, 10], [10, 12, 14], 'same'],
  // What changes both sides of a round alike does not count as noise.
  ['us', [10, 20, 30], [12, 24, 36], 'slower'],
  // Below the smallest change.
  ['us', [100, 100, 100], [101, 101, 101], 'same'],
])('%s %j before and %j after: %s', (unit, a, b, verdict) => {
  expect(verdicts(unit, a, b)).toEqual([verdict]);
});

test('counts of a window, other contestants, and what one side did not measure are left out', () => {
  const a = rounds({
    'Weir: p99': ['ms', 1, 1],
    [`${BARE}: p99`]: ['ms', 1, 1],
    answers: ['2xx', 9, 9],
    gone: ['ms', 1, 1],
    nothing: ['ms', 0, 1],
  });
  const b = rounds({
    'Weir: p99': ['ms', 1, 1],
    [`${BARE}: p99`]: ['ms', 9, 9],
    answers: ['2xx', 1, 1],
    nothing: ['ms', 1, 1],
  });
  expect(comparisonsOf(a, b).map(({ name }) => name)).toEqual(['Weir: p99']);
});

test('figures of rounds: spread, percentile, and ratio by round', () => {
  expect(spreadOf([9, 100, 5])).toEqual({ median: 9, low: 5, high: 100 });
  expect(spreadOf([4, 1, 2, 9])).toEqual({ median: 3, low: 1, high: 9 });
  expect(() => spreadOf([])).toThrow('no values');
  expect([percentile([4, 1, 3, 2], 0.5), percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], 0.95)]).toEqual([2, 10]);
  expect([percentile([7], 0.95), percentile([-1, -2], 0)]).toEqual([7, -2]);
  expect(ratioByRound([10, 40], [5, 10])).toEqual([2, 4]);
  expect(() => ratioByRound([1], [1, 2])).toThrow('the same number of rounds');
});

test.each([
  [0, '0'],
  [0.2371, '0.237'],
  [0.0221, '0.0221'],
  [1.005, '1'],
  [99.96, '100'],
  [24_310.4, '24,310'],
])('%d is formatted as %s', (value, text) => {
  expect(formatNumber(value)).toBe(text);
});

test('one round has no spread', () => {
  expect([formatSpread([1234]), formatSpread([1, 3, 2])]).toEqual(['1,234', '2 (1 to 3)']);
});

test('the figures of wrk are read from the line that its script printed, and their absence is an error', () => {
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
  expect(() => parseWrk('unable to connect to 127.0.0.1:1 Connection refused\n')).toThrow('Connection refused');
});
