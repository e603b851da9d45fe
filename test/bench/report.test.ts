import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Goal, Outcome, Scenario } from '../../bench/lib/outcome.ts';
import { isMet, keepRecord, recordOf, renderReport, renderTable } from '../../bench/lib/report.ts';
import { temporaryDirectory } from '../helpers/settings.ts';

const machine = { cpu: 'a chip', cores: 2, memory: '8 GiB', node: 'v20.0.0', kernel: '6.1', commit: 'abc1234' };
const conditions = { rounds: 3, at: new Date(0), load: 0.25 };
const outcome: Outcome = {
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
  for (const text of [
    'a chip',
    'abc1234',
    'load 0.3',
    '0.5 (0.4 to 0.6)',
    'p99 below 60 ms',
    'missed',
    'measured at night',
  ])
    expect(report).toContain(text);
  expect(report).not.toContain('invalid');
});

test('a run with faults is marked invalid in the report and in the record', () => {
  const faulty = { ...outcome, faults: ['bare gave no response'] };
  expect(renderReport(scenario, faulty, machine, conditions)).toMatch(/invalid[\s\S]*bare gave no response/);
  expect(recordOf(scenario, faulty, machine, conditions)).toMatchObject({ faults: ['bare gave no response'] });
});

test('each run adds one line to the record of its scenario', () => {
  const directory = temporaryDirectory();
  for (const at of [new Date(0), new Date(1)])
    keepRecord(join(directory, 'results'), scenario, recordOf(scenario, outcome, machine, { ...conditions, at }));
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
