/** Bars for long commands on standard error: drawn on a terminal; in a pipe at most one line. */
import { Presets, SingleBar } from 'cli-progress';
import { type CommandIo, printLine } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';

/** @param format cli-progress format, such as `{bar} {value}/{total}` */
export function openBar(format: string, stderr: CommandIo['stderr']): SingleBar {
  return new SingleBar(
    {
      stream: stderr,
      format,
      hideCursor: true,
      // The command handles Ctrl-C itself, because it prints a summary.
      gracefulExit: false,
    },
    Presets.shades_classic,
  );
}

export interface BenchProgress {
  /** Starts the next phase with this name. */
  phase: (name: string) => void;
  /** One second under load has passed. */
  second: () => void;
  stop: () => void;
}

/** @param phases number of phases, each with `phaseSeconds` under load */
export function showBenchProgress(phases: number, phaseSeconds: number, stderr: CommandIo['stderr']): BenchProgress {
  if (stderr.isTTY !== true) return { phase: () => {}, second: () => {}, stop: () => {} };
  const bar = openBar('{bar} {value}/{total} s, {phase}', stderr);
  let begun = 0;
  let passed = 0;
  return {
    phase: (phase) => {
      passed = begun * phaseSeconds;
      begun += 1;
      if (begun === 1) bar.start(phases * phaseSeconds, 0, { phase });
      else bar.update(passed, { phase });
    },
    second: () => {
      passed = Math.min(passed + 1, begun * phaseSeconds);
      bar.update(passed);
    },
    stop: () => bar.stop(),
  };
}

interface JobProgress {
  progress: (job: { progress: number; events: number }) => void;
  waiting: (note: string) => void;
  stop: () => void;
}

export function showJobProgress(stderr: CommandIo['stderr']): JobProgress {
  if (stderr.isTTY !== true)
    return { progress: () => {}, waiting: (note) => printLine({ stderr }, `The job ${note}.`), stop: () => {} };
  const bar = openBar('{bar} {percentage}%, {events} events, {duration_formatted}{note}', stderr);
  bar.start(1, 0, { events: 0, note: '' });
  return {
    progress: ({ progress, events }) => (events > 0 ? bar.update(progress, { events, note: '' }) : undefined),
    waiting: (note) => bar.update({ note: `, ${visibleLine(note)}` }),
    stop: () => bar.stop(),
  };
}

interface TableProgress {
  /** @param weights pages or rows by table */
  begin: (weights: ReadonlyMap<string, number>) => void;
  table: (name: string) => void;
  waiting: (note: string) => void;
  stop: () => void;
}

/** A bar over the tables of a backup, on a terminal. @param title printed in a pipe, once */
export function showTableProgress(title: string, stderr: CommandIo['stderr']): TableProgress {
  if (stderr.isTTY !== true)
    return {
      begin: () => printLine({ stderr }, title),
      table: () => {},
      waiting: (note) => printLine({ stderr }, `weir: ${note}`),
      stop: () => {},
    };
  const bar = openBar('{bar} {percentage}%, {duration_formatted}, {table}', stderr);
  let weights: ReadonlyMap<string, number> = new Map();
  let done = 0;
  let current: string | null = null;
  return {
    begin: (given) => {
      weights = given;
      bar.start([...given.values()].reduce((sum, weight) => sum + weight, 0) || 1, 0, { table: title });
    },
    table: (table) => {
      done += weights.get(current ?? '') ?? 0;
      current = table;
      bar.update(done, { table: visibleLine(table) });
    },
    waiting: (note) => bar.update({ table: visibleLine(note) }),
    stop: () => bar.stop(),
  };
}
