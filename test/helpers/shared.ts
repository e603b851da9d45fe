/** What the tests of a file, or of a `describe`, share. */
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';

interface Ends {
  stop?(): unknown;
  drop?(): unknown;
}

/**
 * Starts something before the first test, in the order of the calls, and ends it after the last one by its `stop` or `drop`.
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
  after(async () => {
    await place.stop?.();
    await place.drop?.();
  });
  return place;
}
