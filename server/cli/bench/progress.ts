/** Shows on standard error how `weir bench` goes: a bar on a terminal, nothing in a pipe. */
import { openBar } from '../bar.ts';
import type { CommandIo } from '../io.ts';

export interface Progress {
  /** What is measured from now on. */
  phase: (name: string) => void;
  /** A second has passed under load. */
  second: () => void;
  stop: () => void;
}

/** @param phases how many there will be, each with so many `phaseSeconds` under load */
export function showProgress(phases: number, phaseSeconds: number, stderr: CommandIo['stderr']): Progress {
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
