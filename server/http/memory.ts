/** The byte budget for request bodies of this process, and the slabs that hold complete bodies. */

/** Counts held body bytes against a limit; allocates nothing. Callers take bytes before they hold them, and give them back after. */
export class ByteBudget {
  readonly maxBytes: number;
  heldBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** Returns false, and takes nothing, if the bytes would exceed the limit. */
  take(bytes: number): boolean {
    if (this.heldBytes + bytes > this.maxBytes) return false;
    this.heldBytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.heldBytes -= bytes;
  }
}

/** A complete body in memory that threads can read. The caller of `hold` releases it once. */
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
 * Bump allocation in fixed-size slabs of shared memory: a body costs one addition and one copy, and creates no garbage.
 * A slab is reused after its last body is released. At most `spareSlabs` empty slabs are kept.
 * A body larger than a slab gets a separate allocation.
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

  /** Copies the chunks of a complete body. Returns null if the budget has no room for it. */
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
    // The previous slab returns to the free list when its last body is released.
    this.#current = this.#free.pop() ?? new Slab(this.#slabBytes);
    return this.#current;
  }

  #release(slab: Slab): void {
    if (--slab.liveBodies > 0) return;
    // Retire the current slab too: if an idle process kept it, a small budget would have no room for incoming chunks.
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
