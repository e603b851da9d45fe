/** Bars for long commands on standard error: drawn on a terminal; in a pipe at most one line. */
import { Presets, SingleBar } from 'cli-progress';
import { type CommandIo, printLine } from '../../base/command/io.ts';
import { visibleLine } from '../../base/telemetry/visible.ts';

type Bar = Pick<SingleBar, 'start' | 'update' | 'stop'>;

/**
 * Opens a bar, which draws nothing in a pipe.
 * @param format cli-progress format, such as `{bar} {value}/{total}`
 */
export function openBar(format: string, stderr: CommandIo['stderr']): Bar {
  if (stderr.isTTY !== true) return { start: () => {}, update: () => {}, stop: () => {} };
  // The command handles Ctrl-C itself, because it prints a summary.
  return new SingleBar({ stream: stderr, format, hideCursor: true, gracefulExit: false }, Presets.shades_classic);
}

export type BenchProgress = ReturnType<typeof showBenchProgress>;

/** A bar over the seconds under load of `weir bench`. @param phases number of phases, each with `phaseSeconds` */
export function showBenchProgress(phases: number, phaseSeconds: number, stderr: CommandIo['stderr']) {
  const bar = openBar('{bar} {value}/{total} s, {phase}', stderr);
  let begun = 0;
  let passed = 0;
  return {
    /** Starts the next phase with this name. */
    phase: (phase: string) => {
      passed = begun * phaseSeconds;
      begun += 1;
      if (begun === 1) bar.start(phases * phaseSeconds, 0, { phase });
      else bar.update(passed, { phase });
    },
    /** One second under load has passed. */
    second: () => {
      passed = Math.min(passed + 1, begun * phaseSeconds);
      bar.update(passed);
    },
    stop: () => bar.stop(),
  };
}

/**
 * A bar over the tables of a backup.
 * @param title printed in a pipe, once
 */
export function showTableProgress(title: string, stderr: CommandIo['stderr']) {
  const bar = openBar('{bar} {percentage}%, {duration_formatted}, {table}', stderr);
  const inPipe = (line: string) => stderr.isTTY !== true && printLine({ stderr }, line);
  let weights: ReadonlyMap<string, number> = new Map();
  let done = 0;
  let current: string | null = null;
  return {
    /** @param given pages or rows by table */
    begin: (given: ReadonlyMap<string, number>) => {
      weights = given;
      bar.start([...given.values()].reduce((sum, weight) => sum + weight, 0) || 1, 0, { table: title });
      inPipe(title);
    },
    table: (table: string) => {
      done += weights.get(current ?? '') ?? 0;
      current = table;
      bar.update(done, { table: visibleLine(table) });
    },
    waiting: (note: string) => {
      bar.update({ table: visibleLine(note) });
      inPipe(`weir: ${note}`);
    },
    stop: () => bar.stop(),
  };
}
