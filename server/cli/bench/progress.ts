/** Shows the progress of `weir bench` on standard error: a bar on a terminal, nothing in a pipe. */
import { openBar } from '../bar.ts';
import type { CommandIo } from '../io.ts';

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
