/** Signals that end a long-running command. */

/** A second SIGINT within this time belongs to the same key press: the terminal signals the whole group, and npm forwards it. */
const SAME_INTERRUPT_MS = 500;

interface EndWatch {
  /** Removes the signal handlers. */
  stop: () => void;
}

/** TERM, INT and HUP start a drain; another INT ends everything at once. */
export function watchEnd(drain: () => void, stopNow: () => void): EndWatch {
  let drainedAtMs: number | null = null;
  const onSignal = (signal: NodeJS.Signals) => {
    const nowMs = performance.now();
    if (drainedAtMs === null) {
      drainedAtMs = nowMs;
      drain();
    } else if (signal === 'SIGINT' && nowMs - drainedAtMs >= SAME_INTERRUPT_MS) stopNow();
  };
  const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, onSignal);
  return {
    stop: () => {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}
