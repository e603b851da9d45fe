/** The signals of `weir consume`. */

/** A second Ctrl-C that comes sooner is the first one again: the terminal tells the whole group, and npm passes it on. */
const SAME_PRESS_MS = 500;

interface EndWatch {
  /** Puts the signals back. */
  stop: () => void;
}

/** TERM, INT and HUP begin a drain; another INT ends everything at once. */
export function watchEnd(drain: () => void, hurry: () => void): EndWatch {
  let drainedAtMs: number | null = null;
  const onSignal = (signal: NodeJS.Signals) => {
    const nowMs = performance.now();
    if (drainedAtMs === null) {
      drainedAtMs = nowMs;
      drain();
    } else if (signal === 'SIGINT' && nowMs - drainedAtMs >= SAME_PRESS_MS) hurry();
  };
  const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, onSignal);
  return {
    stop: () => {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}
