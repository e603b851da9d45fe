/** How many bytes of request bodies this process holds, and the slabs that complete bodies lie in. */

/** A named limit that is counted, not allocated: whoever holds body bytes takes them here first and gives them back. */
export class ByteBudget {
  readonly maxBytes: number;
  heldBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** False when the bytes would pass the limit; then nothing was taken. */
  take(bytes: number): boolean {
    if (this.heldBytes + bytes > this.maxBytes) return false;
    this.heldBytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.heldBytes -= bytes;
  }
}

/** A complete body in memory that threads can read. Whoever asked for it releases it, once. */
export interface HeldBody {
  /** The body's bytes; valid until `release`. */
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  release(): void;
}

class Slab {
  readonly memory: SharedArrayBuffer;
  usedBytes = 0;
  liveBodies = 0;

  constructor(bytes: number) {
    this.memory = new SharedArrayBuffer(bytes);
  }
}

/**
 * Bump allocation in fixed slabs of shared memory: a body costs an addition and a copy, and no garbage.
 * A slab is used again when its last body is released; at most `spareSlabs` empty ones are kept.
 * A body larger than a slab has memory of its own.
 */
export class SlabArena {
  readonly #budget: ByteBudget;
  readonly #slabBytes: number;
  readonly #spareSlabs: number;
  readonly #free: Slab[] = [];
  #current: Slab | null = null;

  constructor(budget: ByteBudget, { slabBytes = 1_048_576, spareSlabs = 8 } = {}) {
    this.#budget = budget;
    this.#slabBytes = slabBytes;
    this.#spareSlabs = spareSlabs;
  }

  /** Copies the chunks of a complete body; null when the budget has no room for it. */
  hold(chunks: readonly Uint8Array[], bodyBytes: number): HeldBody | null {
    if (bodyBytes > this.#slabBytes) return this.#holdAlone(chunks, bodyBytes);
    const slab = this.#slabWithRoom(bodyBytes);
    if (slab === null) return null;
    const bytes = new Uint8Array(slab.memory, slab.usedBytes, bodyBytes);
    copy(chunks, bytes);
    slab.usedBytes += bodyBytes;
    slab.liveBodies++;
    return { bytes, release: () => this.#release(slab) };
  }

  #holdAlone(chunks: readonly Uint8Array[], bodyBytes: number): HeldBody | null {
    if (!this.#budget.take(bodyBytes)) return null;
    const bytes = new Uint8Array(new SharedArrayBuffer(bodyBytes));
    copy(chunks, bytes);
    return { bytes, release: () => this.#budget.give(bodyBytes) };
  }

  #slabWithRoom(bodyBytes: number): Slab | null {
    const current = this.#current;
    if (current !== null && current.usedBytes + bodyBytes <= this.#slabBytes) return current;
    if (!this.#budget.take(this.#slabBytes)) return null;
    // The full slab left behind comes back through the release of its last body.
    this.#current = this.#free.pop() ?? new Slab(this.#slabBytes);
    return this.#current;
  }

  #release(slab: Slab): void {
    if (--slab.liveBodies > 0) return;
    // Also the current one: an idle process holds nothing, or a small budget would have no room left to gather in.
    if (slab === this.#current) this.#current = null;
    this.#retire(slab);
  }

  #retire(slab: Slab): void {
    slab.usedBytes = 0;
    this.#budget.give(this.#slabBytes);
    if (this.#free.length < this.#spareSlabs) this.#free.push(slab);
  }
}

function copy(chunks: readonly Uint8Array[], to: Uint8Array): void {
  let offset = 0;
  for (const chunk of chunks) {
    to.set(chunk, offset);
    offset += chunk.length;
  }
}
