/** Signals that end the work of a command. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs the work until a signal asks it to stop; the work then cleans up and rejects. Later signals change nothing: npm forwards the Ctrl-C of
 * a terminal a second time.
 */
export async function untilSignal<T>(work: (stop: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  for (const name of SIGNALS) process.on(name, onSignal);
  try {
    return await work(stop.signal);
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
  }
}
