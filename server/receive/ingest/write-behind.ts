/**
 * Collects one value per id from requests and writes all of them every few seconds in one statement, and those of thousands of ids once a
 * minute. No request waits for the write.
 */

const EVERY_MS = 5_000;
/** Values of one write. A statement with 20,000 took a second, during which other processes waited for its rows. */
export const VALUES_MAX = 2_000;
/**
 * More values than VALUES_MAX wait this long, so that those of one id share a write: with an event of another of 100,000 webhooks each time,
 * no two share one within EVERY_MS, and the writes cost more than the events (figures in bench/NOTES.md).
 */
const MANY_EVERY_MS = 60_000;
/** Pause between two such writes. 100,000 values are written within 25 s, on one connection, and leave three quarters of a core. */
const PAUSE_MS = 400;
/** Time limit of the last write when the process exits. */
const LAST_WRITE_MS = 1_000;

export class WriteBehind<Value = number> {
  readonly #write: (values: ReadonlyMap<string, Value>) => Promise<void>;
  readonly #merge: (one: Value, other: Value) => Value;
  readonly #collect: () => void;
  readonly #timer: NodeJS.Timeout;
  readonly #ticksOfMany: number;
  #values = new Map<string, Value>();
  #writing: Promise<void> = Promise.resolve();
  /** Ticks of the timer since the last write began. */
  #ticks = 0;
  /** Calls of `flush` that wait: nothing is paused until they are done. */
  #waiting = 0;
  #endPause: () => void = () => {};

  /**
   * @param write stores the values collected since the last write.
   * @param merge combines two values of the same id.
   * @param options.everyMs interval of the writes. More than VALUES_MAX values are written every MANY_EVERY_MS, with pauses.
   * @param options.isUrgent more values are written as often as few.
   * @param options.collect called before each write, to note what is counted elsewhere.
   */
  constructor(
    write: (values: ReadonlyMap<string, Value>) => Promise<void>,
    merge: (one: Value, other: Value) => Value,
    {
      everyMs = EVERY_MS,
      isUrgent = false,
      collect = () => {},
    }: { everyMs?: number; isUrgent?: boolean; collect?: () => void } = {},
  ) {
    this.#write = write;
    this.#merge = merge;
    this.#collect = collect;
    this.#ticksOfMany = isUrgent ? 1 : MANY_EVERY_MS / everyMs;
    this.#timer = setInterval(() => this.#tick(), everyMs).unref();
  }

  /** Ids with a value that waits for a write. */
  get size(): number {
    return this.#values.size;
  }

  note(id: string, value: Value): void {
    const before = this.#values.get(id);
    this.#values.set(id, before === undefined ? value : this.#merge(before, value));
  }

  /**
   * Writes the collected values after any write under way, VALUES_MAX at a time, without pauses. After an error those that are left are kept
   * for the next flush.
   */
  async flush(): Promise<void> {
    this.#waiting++;
    this.#endPause();
    this.#collect();
    await this.#writeAll();
    this.#waiting--;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.race([this.flush(), new Promise((resolve) => setTimeout(resolve, LAST_WRITE_MS).unref())]);
  }

  #tick(): void {
    this.#collect();
    if (++this.#ticks >= this.#ticksOfMany || this.#values.size <= VALUES_MAX) void this.#writeAll();
  }

  #writeAll(): Promise<void> {
    this.#ticks = 0;
    this.#writing = this.#writing.then(() => this.#writeParts());
    return this.#writing;
  }

  async #writeParts(): Promise<void> {
    const left = this.#values;
    this.#values = new Map();
    while (left.size > 0) {
      const some = firstOf(left);
      try {
        await this.#write(some);
      } catch {
        const since = this.#values;
        this.#values = left;
        for (const [id, value] of since) this.note(id, value);
        return;
      }
      for (const id of some.keys()) left.delete(id);
      if (left.size > 0 && this.#waiting === 0) await this.#pause();
    }
  }

  /** Ends at the next `flush`. */
  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, PAUSE_MS).unref();
      this.#endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

function firstOf<Value>(values: ReadonlyMap<string, Value>): Map<string, Value> {
  const some = new Map<string, Value>();
  for (const [id, value] of values) {
    if (some.size === VALUES_MAX) break;
    some.set(id, value);
  }
  return some;
}
