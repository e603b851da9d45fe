/** Types of a scenario and of its results. */

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

/** A table for the terminal and the README. */
export interface Table {
  header: string[];
  rows: string[][];
}

export interface Outcome {
  tables: Table[];
  measures: Measure[];
  ratios: Ratio[];
  /** How the run was measured, one sentence each. */
  notes: string[];
  /** Reasons why the run is invalid (a response other than 2xx, a missing row), one sentence each. */
  faults: string[];
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

export interface Scenario {
  name: string;
  summary: string;
  defaults: { rounds: number; seconds: number };
  run: (context: BenchContext) => Promise<Outcome>;
}
