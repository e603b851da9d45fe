/** What a scenario is, and what it hands back for the report. */

/** One quantity of one contestant, a value for each round. */
export interface Measure {
  name: string;
  unit: string;
  values: number[];
}

/** How many times `to` one contestant is, a value for each round: noise that lasts longer than a round cancels out. */
export interface Ratio {
  of: string;
  to: string;
  values: number[];
}

/** What was aimed at, judged by the median. */
export interface Goal {
  what: string;
  value: number;
  unit: string;
  atLeast?: number;
  below?: number;
}

/** A table for people and for the README. */
export interface Table {
  header: string[];
  rows: string[][];
}

export interface Outcome {
  tables: Table[];
  measures: Measure[];
  ratios: Ratio[];
  /** The tables hold the ratios already; no table of them is added. */
  ratiosInTables?: true;
  goals: Goal[];
  /** How it was measured, a sentence each. */
  notes: string[];
  /** Why the run does not count (an answer that was no 2xx, a row that is missing), a sentence each. */
  faults: string[];
}

/** What a scenario gets from the command line. */
export interface BenchContext {
  rounds: number;
  /** Length of one measured window. */
  seconds: number;
  /** Fires at Ctrl-C; a scenario stops between two windows, and a load generator at once. */
  signal: AbortSignal;
  /** Registers how to end what was begun; everything is undone in reverse, whatever happens. */
  undo: (step: () => unknown) => void;
  /** Progress for people, a line. */
  say: (line: string) => void;
}

export interface Scenario {
  name: string;
  summary: string;
  defaults: { rounds: number; seconds: number };
  run: (context: BenchContext) => Promise<Outcome>;
}
