/** Types of a scenario and of its results, and its goals. */
import { formatSpread, spreadOf } from './stats.ts';

/** One quantity of one contestant, with one value per round. */
export interface Measure {
  name: string;
  unit: string;
  values: number[];
}

/** Ratio of one contestant to another, with one value per round: noise that lasts longer than a round cancels out. */
export interface Ratio {
  of: string;
  to: string;
  values: number[];
}

/** A target, judged by the median. */
export interface Goal {
  what: string;
  value: number;
  unit: string;
  atLeast?: number;
  below?: number;
}

/** A goal: the median of the values is below the limit. */
export function below(what: string, values: readonly number[], limit: number, unit = ''): Goal {
  return { what, value: spreadOf(values).median, unit, below: limit };
}

/** A goal: the median of the values is at least the limit. */
export function atLeast(what: string, values: readonly number[], limit: number, unit = ''): Goal {
  return { what, value: spreadOf(values).median, unit, atLeast: limit };
}

/** A table for the terminal and the README. */
export interface Table {
  header: string[];
  rows: string[][];
}

/** One figure of each contestant: a column of a table, and a measure in the record. Null: not in the table, or not in the record. */
export type Figure<One> = readonly [
  column: string | null,
  /** The name follows that of the contestant; '': it has that name alone. */
  measure: readonly [name: string, unit: string] | null,
  valuesOf: (one: One) => number[],
];

/** Builds a table with a row for each contestant, and the measures of the same figures. @param title of the first column */
export function tabulate<One extends { name: string }>(
  title: string,
  all: readonly One[],
  figures: readonly Figure<One>[],
): { table: Table; measures: Measure[] } {
  const shown = figures.filter(([column]) => column !== null);
  const rows = all.map((one) => [one.name, ...shown.map(([, , valuesOf]) => formatSpread(valuesOf(one)))]);
  const measures = all.flatMap((one) =>
    figures.flatMap(([, measure, valuesOf]) => {
      if (measure === null) return [];
      const [name, unit] = measure;
      return { name: name === '' ? one.name : `${one.name}: ${name}`, unit, values: valuesOf(one) };
    }),
  );
  return { table: { header: [title, ...shown.map(([column]) => column!)], rows }, measures };
}

export interface BenchOutcome {
  tables: Table[];
  measures: Measure[];
  ratios?: Ratio[];
  /** The tables already contain the ratios, so the report adds no table for them. */
  ratiosInTables?: true;
  goals?: Goal[];
  /** How the run was measured, one sentence each. */
  notes: string[];
  /** Reasons why the run is invalid (a response other than 2xx, a missing row), one sentence each. */
  faults?: string[];
}

/** What a scenario receives from the command line. */
export interface BenchContext {
  rounds: number;
  /** Length of one measured window. */
  seconds: number;
  /** Events to store before the measurement, for scenarios that do so; undefined: the scenario's default. */
  events?: number | undefined;
  /** Aborts at Ctrl-C. A scenario stops between two windows, a load generator at once. */
  signal: AbortSignal;
  /** Registers a cleanup step. Steps run in reverse order, also after a failure. */
  undo: (step: () => unknown) => void;
  /** Prints one line of progress. */
  say: (line: string) => void;
}

/** Measures each contestant once a round, in turns. @param measure resolves with a line of progress */
export async function inRounds<Contestant>(
  { rounds, signal, say }: BenchContext,
  contestants: readonly Contestant[],
  measure: (contestant: Contestant) => Promise<string>,
): Promise<void> {
  for (let round = 1; round <= rounds; round++)
    for (const contestant of contestants) {
      signal.throwIfAborted();
      say(`round ${round} of ${rounds}: ${await measure(contestant)}`);
    }
}

export interface Scenario {
  name: string;
  summary: string;
  defaults: { rounds: number; seconds: number };
  run: (context: BenchContext) => Promise<BenchOutcome>;
}
