/**
 * Collects one value per id, and writes all values every few seconds. Thousands of values are written once a minute, tens of thousands every
 * five minutes, in statements of up to VALUES_MAX rows.
 */

const EVERY_MS = 5_000;
/** Limit on the rows of one write. A statement with 20,000 took a second, during which other processes waited for its rows. */
export const VALUES_MAX = 2_000;
/**
 * Above VALUES_MAX, values are written at this interval, so that several of one id share a write: 100,000 webhooks rarely have two events
 * within EVERY_MS.
 */
const MANY_EVERY_MS = 60_000;
/** From this number of values on they are written every SPARSE_EVERY_MS: writes of 100,000 webhooks a minute took a tenth of a core. */
export const SPARSE_FROM = 20_000;
export const SPARSE_EVERY_MS = 300_000;
/** Pause between two writes of many values. 100,000 are written within 25 s, on one connection, and leave three quarters of a core free. */
const PAUSE_MS = 400;
/** Time limit of the last write when the process exits. */
const LAST_WRITE_MS = 1_000;

/** The place for the next value of an id. Code that notes values often keeps its slot: a look-up among 100,000 ids misses the CPU's caches. */
export class Slot<Value = number> {
  readonly id: string;
  /** The value that waits for a write; null: no value waits. */
  value: Value | null = null;

  constructor(id: string) {
    this.id = id;
  }
}

/** Collected values, and their writes. */
export class WriteBehind<Value = number> {
  readonly #write: (values: ReadonlyMap<string, Value>) => Promise<void>;
  readonly #merge: (one: Value, other: Value) => Value;
  readonly #rowsOf: (value: Value) => number;
  readonly #collect: () => void;
  readonly #timer: NodeJS.Timeout;
  readonly #everyMs: number;
  readonly #isUrgent: boolean;
  /** Slots with a value, by id. */
  #slots = new Map<string, Slot<Value>>();
  #writing: Promise<void> = Promise.resolve();
  #ticks = 0;
  /** Calls of `flush` that wait: writes make no pauses until they are done. */
  #waiting = 0;
  #endPause: () => void = () => {};

  /**
   * @param write stores the values collected since the last write.
   * @param merge combines two values of the same id.
   * @param options.everyMs interval of the writes. More than VALUES_MAX values are written every MANY_EVERY_MS or SPARSE_EVERY_MS, with
   * pauses, unless `isUrgent`.
   * @param options.rowsOf how many rows a value is written as; default: one.
   * @param options.collect called before each write, to note what is counted elsewhere.
   */
  constructor(
    write: (values: ReadonlyMap<string, Value>) => Promise<void>,
    merge: (one: Value, other: Value) => Value,
    {
      everyMs = EVERY_MS,
      isUrgent = false,
      rowsOf = () => 1,
      collect = () => {},
    }: { everyMs?: number; isUrgent?: boolean; rowsOf?: (value: Value) => number; collect?: () => void } = {},
  ) {
    this.#write = write;
    this.#merge = merge;
    this.#rowsOf = rowsOf;
    this.#collect = collect;
    this.#everyMs = everyMs;
    this.#isUrgent = isUrgent;
    this.#timer = setInterval(() => this.#tick(), everyMs).unref();
  }

  /** Ids with a value that waits for a write. */
  get size(): number {
    return this.#slots.size;
  }

  note(id: string, value: Value): void {
    this.noteIn(new Slot(id), value);
  }

  /** @param slot is used with this object alone. Several slots of one id are written as one. */
  noteIn(slot: Slot<Value>, value: Value): void {
    if (slot.value !== null) {
      slot.value = this.#merge(slot.value, value);
      return;
    }
    const other = this.#slots.get(slot.id);
    if (other === undefined) {
      slot.value = value;
      this.#slots.set(slot.id, slot);
    } else other.value = this.#merge(other.value!, value);
  }

  /**
   * Waits for a write in progress, then writes the collected values, VALUES_MAX at a time, without pauses. After an error, the values that
   * were not written are kept for the next flush.
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
    const waitedMs = ++this.#ticks * this.#everyMs;
    if (this.#isUrgent || this.#slots.size <= VALUES_MAX || waitedMs >= everyMsOf(this.#slots.size))
      void this.#writeAll();
  }

  #writeAll(): Promise<void> {
    this.#ticks = 0;
    this.#writing = this.#writing.then(() => this.#writeParts());
    return this.#writing;
  }

  async #writeParts(): Promise<void> {
    const slots = this.#slots;
    const left = slots.values();
    this.#slots = new Map();
    for (let written = 0; written < slots.size; ) {
      const some = this.#takeSome(left);
      try {
        await this.#write(some);
      } catch {
        for (const [id, value] of some) this.#putBack(new Slot(id), value);
        for (const slot of left) this.#putBack(slot, takeFrom(slot));
        return;
      }
      written += some.size;
      if (written < slots.size && this.#waiting === 0) await this.#pause();
    }
  }

  /** Takes the values of the next slots, up to VALUES_MAX rows. */
  #takeSome(slots: IterableIterator<Slot<Value>>): Map<string, Value> {
    const some = new Map<string, Value>();
    for (let rows = 0; rows < VALUES_MAX; ) {
      const next = slots.next();
      if (next.done === true) break;
      const value = takeFrom(next.value);
      some.set(next.value.id, value);
      rows += this.#rowsOf(value);
    }
    return some;
  }

  /** Keeps a value that was not written, and merges it with what was noted since. */
  #putBack(slot: Slot<Value>, value: Value): void {
    const since = this.#slots.get(slot.id);
    if (since === undefined) this.noteIn(slot, value);
    else since.value = this.#merge(value, since.value!);
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

/** Interval of the writes for this number of values, which is over VALUES_MAX. */
export function everyMsOf(values: number): number {
  return values >= SPARSE_FROM ? SPARSE_EVERY_MS : MANY_EVERY_MS;
}

function takeFrom<Value>(slot: Slot<Value>): Value {
  const value = slot.value!;
  slot.value = null;
  return value;
}
