/** What requests tell of a thing, by its id, written every few seconds by one statement: no request waits for it. */

const EVERY_MS = 5_000;
/** A process that ends waits so long for its last write. */
const LAST_WRITE_MS = 1_000;

export class Gathered {
  readonly #write: (gathered: ReadonlyMap<string, number>) => Promise<void>;
  readonly #merge: (one: number, other: number) => number;
  readonly #timer: NodeJS.Timeout;
  #gathered = new Map<string, number>();
  #writing: Promise<void> = Promise.resolve();

  /**
   * @param write stores what was gathered since the last time.
   * @param merge what two requests told of the same id.
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

  /** Writes one after the other; what the database does not take is kept for the next time. */
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
