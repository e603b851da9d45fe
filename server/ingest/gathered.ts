/** Collects one value per id from requests and writes all of them every few seconds in one statement. No request waits for the write. */

const EVERY_MS = 5_000;
/** Time limit of the last write when the process exits. */
const LAST_WRITE_MS = 1_000;

export class Gathered {
  readonly #write: (gathered: ReadonlyMap<string, number>) => Promise<void>;
  readonly #merge: (one: number, other: number) => number;
  readonly #timer: NodeJS.Timeout;
  #gathered = new Map<string, number>();
  #writing: Promise<void> = Promise.resolve();

  /**
   * @param write stores the values collected since the last write.
   * @param merge combines two values of the same id.
   */
  constructor(
    write: (gathered: ReadonlyMap<string, number>) => Promise<void>,
    merge: (one: number, other: number) => number,
  ) {
    this.#write = write;
    this.#merge = merge;
    this.#timer = setInterval(() => void this.flush(), EVERY_MS).unref();
  }

  note(id: string, value: number): void {
    const before = this.#gathered.get(id);
    this.#gathered.set(id, before === undefined ? value : this.#merge(before, value));
  }

  /** Writes the collected values after any write under way. After an error the values are kept for the next write. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#flush());
    return this.#writing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.race([this.flush(), new Promise((resolve) => setTimeout(resolve, LAST_WRITE_MS).unref())]);
  }

  async #flush(): Promise<void> {
    if (this.#gathered.size === 0) return;
    const gathered = this.#gathered;
    this.#gathered = new Map();
    try {
      await this.#write(gathered);
    } catch {
      for (const [id, value] of gathered) this.note(id, value);
    }
  }
}
