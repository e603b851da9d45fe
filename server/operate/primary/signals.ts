/** Signal handling of the primary. */

export interface Ending {
  /** Resolves once, with the exit code, after a signal or a call of `end`. */
  ended: Promise<{ code: number; reason: string }>;
  end(code: number, reason: string): void;
  onScale(handler: (change: 1 | -1) => void): void;
  onRestart(handler: () => void): void;
  /** Removes the signal handlers. */
  stop(): void;
}

/** TERM and INT end Weir. HUP restarts processes one by one; on a terminal HUP means that the terminal closed. TTIN and TTOU scale. */
export function waitForEnd(terminal: boolean): Ending {
  let scale: (change: 1 | -1) => void = () => {};
  let restart: () => void = () => {};
  let end!: Ending['end'];
  const ended = new Promise<{ code: number; reason: string }>((resolve) => {
    end = (code, reason) => resolve({ code, reason });
  });
  const handlers: [NodeJS.Signals, () => void][] = [
    ['SIGTERM', () => end(0, 'SIGTERM')],
    // npm forwards the terminal's Ctrl-C a second time, so a second SIGINT must not force the exit.
    ['SIGINT', () => end(0, 'SIGINT')],
    ['SIGHUP', () => (terminal ? end(0, 'SIGHUP') : restart())],
    ['SIGTTIN', () => scale(1)],
    ['SIGTTOU', () => scale(-1)],
  ];
  for (const [signal, handler] of handlers) process.on(signal, handler);
  return {
    ended,
    end,
    onScale: (handler) => {
      scale = handler;
    },
    onRestart: (handler) => {
      restart = handler;
    },
    stop: () => {
      for (const [signal, handler] of handlers) process.off(signal, handler);
    },
  };
}
