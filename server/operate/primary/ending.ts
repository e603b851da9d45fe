/** What ends Weir, and what is undone then. */

export interface Ending {
  /** Resolves once, with the exit code, after a signal or a call of `end`. */
  ended: Promise<{ code: number; reason: string }>;
  /** Aborts when `ended` resolves. */
  signal: AbortSignal;
  end(code: number, reason: string): void;
  /** Sets the handler of a signal that does not end Weir. */
  on(signal: 'SIGHUP' | 'SIGTTIN' | 'SIGTTOU', handler: () => void): void;
  /** Removes the signal handlers. */
  stop(): void;
}

/** TERM and INT end Weir. HUP restarts processes one by one; on a terminal HUP means that the terminal closed. TTIN and TTOU scale. */
export function waitForEnd(terminal: boolean): Ending {
  const ending = new AbortController();
  let end!: Ending['end'];
  const ended = new Promise<{ code: number; reason: string }>((resolve) => {
    end = (code, reason) => {
      resolve({ code, reason });
      ending.abort();
    };
  });
  const handlers: Partial<Record<NodeJS.Signals, () => void>> = {};
  // npm forwards the terminal's Ctrl-C a second time, so a second SIGINT must not force the exit.
  const ends = new Set<NodeJS.Signals>(['SIGTERM', 'SIGINT', ...(terminal ? (['SIGHUP'] as const) : [])]);
  const onSignal = (signal: NodeJS.Signals) => (ends.has(signal) ? end(0, signal) : handlers[signal]?.());
  const signals: NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGTTIN', 'SIGTTOU'];
  for (const signal of signals) process.on(signal, onSignal);
  return {
    ended,
    signal: ending.signal,
    end,
    on: (signal, handler) => {
      handlers[signal] = handler;
    },
    stop: () => {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}

/** Cleanup steps, run in reverse order. Code that acquires a resource pushes the step that releases it. */
export class UndoStack {
  readonly #steps: (() => unknown)[] = [];

  push(step: () => unknown): void {
    this.#steps.push(step);
  }

  /** Runs all steps, the last one first. A failed step does not stop the others; the first error is thrown at the end. */
  async run(): Promise<void> {
    const errors: unknown[] = [];
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
