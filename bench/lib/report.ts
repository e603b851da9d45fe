/** Formats an outcome as Markdown for the terminal and the README, and as one JSON line for the record, with the machine and the commit. */
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import type { BenchOutcome, Goal, Scenario, Table } from './outcome.ts';
import { projectRoot } from './paths.ts';
import { formatNumber, formatSpread, spreadOf } from './stats.ts';

type Machine = ReturnType<typeof describeMachine>;

/** The machine and the commit of a run, without which two runs cannot be compared. */
export function describeMachine() {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    node: process.version,
    kernel: release(),
    /** Short commit id, followed by `+` when the working tree differs; null outside a repository. */
    commit: commit(),
  };
}

function commit(): string | null {
  try {
    const git = (...args: string[]) =>
      execFileSync('git', args, { cwd: projectRoot, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
    const changed = git('status', '--porcelain', '--', 'server', 'workers', 'bench', ':!bench/results') !== '';
    return git('rev-parse', '--short', 'HEAD') + (changed ? '+' : '');
  } catch {
    return null;
  }
}

/** Conditions of a run. */
interface Conditions {
  rounds: number;
  at: Date;
  /** Load average of the minute before the run: other programs that use the cores. */
  load: number;
}

/** The complete report of one scenario, in Markdown. */
export function renderReport(
  scenario: Scenario,
  outcome: BenchOutcome,
  machine: Machine,
  { rounds, load }: Conditions,
): string {
  const { cpu, cores, memory, node, kernel, commit } = machine;
  const { tables, ratios = [], ratiosInTables, goals = [], notes, faults = [] } = outcome;
  const parts = [
    `## ${scenario.name}: ${scenario.summary}`,
    `${cpu}, ${cores} cores, ${memory}; Node ${node}, Linux ${kernel}, commit ${commit ?? 'unknown'}; load ${load.toFixed(1)} before the run. ` +
      `Medians of ${rounds} rounds (lowest to highest); contestants take turns in each round, so that ratios are comparable ` +
      'even when other load on the machine changes the absolute figures.',
    ...tables.map(renderTable),
  ];
  if (ratios.length > 0 && !ratiosInTables)
    parts.push(
      renderTable({
        header: ['ratio', 'to', 'times'],
        rows: ratios.map(({ of, to, values }) => [of, to, formatSpread(values)]),
      }),
    );
  if (goals.length > 0)
    parts.push(
      renderTable({
        header: ['goal', 'measured', ''],
        rows: goals.map((goal) => [
          `${goal.what} ${limitOf(goal)}`,
          `${formatNumber(goal.value)} ${goal.unit}`.trimEnd(),
          isMet(goal) ? 'met' : 'missed',
        ]),
      }),
    );
  if (notes.length > 0) parts.push(notes.map((note) => `- ${note}`).join('\n'));
  if (faults.length > 0) parts.push(`**This run is invalid:**\n\n${faults.map((fault) => `- ${fault}`).join('\n')}`);
  return `${parts.join('\n\n')}\n`;
}

/** A Markdown table with columns that are also aligned in a terminal. All columns but the first are numbers, aligned right. */
export function renderTable({ header, rows }: Table): string {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(3, ...all.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!))).join(' | ')} |`;
  const rule = `|${widths.map((width, column) => (column === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`;
  return [line(header), rule, ...rows.map(line)].join('\n');
}

/** Whether the value is within the limits of its goal. */
export function isMet({ value, atLeast, below }: Goal): boolean {
  return (atLeast === undefined || value >= atLeast) && (below === undefined || value < below);
}

function limitOf({ atLeast, below, unit }: Goal): string {
  return `${atLeast === undefined ? `below ${below}` : `at least ${atLeast}`} ${unit}`.trimEnd();
}

/** The record of one run; `low` and `high` are the lowest and the highest round. */
export function benchRecordOf(
  scenario: Scenario,
  { measures, ratios = [], goals = [], faults = [] }: BenchOutcome,
  machine: Machine,
  { rounds, at, load }: Conditions,
): object {
  return {
    scenario: scenario.name,
    at: at.toISOString(),
    machine,
    load: Number(load.toFixed(2)),
    runs: rounds,
    results: measures.map(({ name, unit, values }) => ({ name, ...rounded(values), unit })),
    ratios: ratios.map(({ of, to, values }) => ({ of, to, ...rounded(values) })),
    goals: goals.map((goal) => ({ ...goal, value: fourDigits(goal.value), met: isMet(goal) })),
    ...(faults.length > 0 ? { faults } : {}),
  };
}

/** Appends a line to `directory/SCENARIO.jsonl`. */
export function keepRecord(directory: string, scenario: Scenario, record: object): void {
  mkdirSync(directory, { recursive: true });
  appendFileSync(join(directory, `${scenario.name}.jsonl`), `${JSON.stringify(record)}\n`);
}

function rounded(values: readonly number[]) {
  const { median, low, high } = spreadOf(values);
  return { median: fourDigits(median), low: fourDigits(low), high: fourDigits(high) };
}

function fourDigits(value: number): number {
  return Number(value.toPrecision(4));
}
