/** What the tests of a file, or of a `describe`, share. */
import { afterAll, afterEach, beforeAll, beforeEach, onTestFinished } from 'vitest';

interface Ends {
  stop?(): unknown;
  drop?(): unknown;
  close?(): unknown;
  destroy?(): unknown;
}

/**
 * Starts something before the first test, in the order of the calls, and ends it after the last one by its `stop`, `drop`, `close` or `destroy`.
 * The members of what is returned exist in tests and hooks only.
 */
export function shared<T extends object>(start: () => Promise<T>): T {
  return between(start, beforeAll, afterAll);
}

/** Starts and ends it for each test. */
export function ofEach<T extends object>(start: () => Promise<T>): T {
  return between(start, beforeEach, afterEach);
}

type Hook = (run: () => Promise<void>) => void;

function between<T extends object>(start: () => Promise<T>, before: Hook, after: Hook): T {
  const place = {} as T & Ends;
  before(async () => {
    const started = await start();
    Object.setPrototypeOf(place, Object.getPrototypeOf(started));
    Object.assign(place, started);
  });
  after(() => end(place));
  return place;
}

/** What a test starts for itself; it ends after the test, and after what `ofEach` started. */
export async function ofTest<T extends Ends>(starting: T | Promise<T>): Promise<T> {
  const started = await starting;
  onTestFinished(() => end(started));
  return started;
}

async function end(started: Ends): Promise<void> {
  await started.stop?.();
  await started.drop?.();
  await started.close?.();
  await started.destroy?.();
}
