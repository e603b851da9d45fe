/** Counts how often each secret verified, and writes the sums every few seconds: an operator sees when the old one is unused. */
import type { Database } from '../db/pool.ts';
import { addSecretUses } from '../db/queries/secret-uses.ts';

const EVERY_MS = 10_000;
/** A process that ends waits so long for its last write. */
const LAST_WRITE_MS = 1_000;

export class SecretUses {
  readonly #database: Database;
  readonly #timer: NodeJS.Timeout;
  #counts = new Map<string, number>();
  #writing: Promise<void> = Promise.resolve();

  constructor(database: Database) {
    this.#database = database;
    this.#timer = setInterval(() => void this.flush(), EVERY_MS).unref();
  }

  /** @param id of the secret that verified a request. */
  count(id: string): void {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
  }

  /** Writes what was counted since the last time, one write after the other; what the database does not take is kept for the next. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.race([this.flush(), new Promise((resolve) => setTimeout(resolve, LAST_WRITE_MS).unref())]);
  }

  async #write(): Promise<void> {
    if (this.#counts.size === 0) return;
    const counts = this.#counts;
    this.#counts = new Map();
    try {
      await addSecretUses(this.#database, counts);
    } catch {
      for (const [id, uses] of counts) this.#counts.set(id, (this.#counts.get(id) ?? 0) + uses);
    }
  }
}
