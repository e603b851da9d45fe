/** Types of a scenario and of its results, and its goals. */
import { spreadOf } from './stats.ts';

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

/** A goal for the median of the values. */
export function below(what: string, values: readonly number[], limit: number, unit = ''): Goal {
  return { what, value: spreadOf(values).median, unit, below: limit };
}

/** A goal for the median of the values. */
export function atLeast(what: string, values: readonly number[], limit: number, unit = ''): Goal {
  return { what, value: spreadOf(values).median, unit, atLeast: limit };
}

/** A table for the terminal and the README. */
export interface Table {
  header: string[];
  rows: string[][];
}

export interface Outcome {
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
  run: (context: BenchContext) => Promise<Outcome>;
}
