/** Collects one value per id from requests and writes all of them every few seconds in one statement. No request waits for the write. */

const EVERY_MS = 5_000;
/** Values of one write. A statement with 20,000 took a second, during which other processes waited for its rows. */
const VALUES_MAX = 2_000;
/** Time limit of the last write when the process exits. */
const LAST_WRITE_MS = 1_000;

export class WriteBehind<Value = number> {
  readonly #write: (values: ReadonlyMap<string, Value>) => Promise<void>;
  readonly #merge: (one: Value, other: Value) => Value;
  readonly #collect: () => void;
  readonly #timer: NodeJS.Timeout;
  #values = new Map<string, Value>();
  #writing: Promise<void> = Promise.resolve();

  /**
   * @param write stores the values collected since the last write.
   * @param merge combines two values of the same id.
   * @param options.collect called at the start of each flush, to note what is counted elsewhere.
   */
  constructor(
    write: (values: ReadonlyMap<string, Value>) => Promise<void>,
    merge: (one: Value, other: Value) => Value,
    { everyMs = EVERY_MS, collect = () => {} }: { everyMs?: number; collect?: () => void } = {},
  ) {
    this.#write = write;
    this.#merge = merge;
    this.#collect = collect;
    this.#timer = setInterval(() => void this.flush(), everyMs).unref();
  }

  /** Ids with a value that waits for a write. */
  get size(): number {
    return this.#values.size;
  }

  note(id: string, value: Value): void {
    const before = this.#values.get(id);
    this.#values.set(id, before === undefined ? value : this.#merge(before, value));
  }

  /** Writes the collected values after any write under way, VALUES_MAX at a time. After an error those that are left are kept for the next flush. */
  flush(): Promise<void> {
    this.#collect();
    this.#writing = this.#writing.then(() => this.#flush());
    return this.#writing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.race([this.flush(), new Promise((resolve) => setTimeout(resolve, LAST_WRITE_MS).unref())]);
  }

  async #flush(): Promise<void> {
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
    }
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
