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
  /** Null: the body has an allocation of its own. */
  readonly slab: Slab | null;
}

class Slab {
  readonly memory: SharedArrayBuffer;
  usedBytes = 0;
  liveBodies = 0;

  constructor(bytes: number) {
    this.memory = new SharedArrayBuffer(bytes);
  }

  /** Returns the place of one more body. */
  add(bodyBytes: number): Uint8Array<SharedArrayBuffer> {
    const bytes = new Uint8Array(this.memory, this.usedBytes, bodyBytes);
    this.usedBytes += bodyBytes;
    this.liveBodies++;
    return bytes;
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
  hold(chunks: readonly Uint8Array[], lastChunk: Uint8Array, bodyBytes: number): HeldBody | null {
    const slab = bodyBytes > this.#slabBytes ? null : this.#slabWithRoom(bodyBytes);
    const bytes = slab === null ? this.#alone(bodyBytes) : slab.add(bodyBytes);
    if (bytes === null) return null;
    let at = 0;
    for (const chunk of chunks) {
      bytes.set(chunk, at);
      at += chunk.length;
    }
    bytes.set(lastChunk, at);
    return { bytes, slab };
  }

  release({ bytes, slab }: HeldBody): void {
    if (slab === null) return this.#budget.give(bytes.length);
    if (--slab.liveBodies > 0) return;
    // Retire the current slab too: if an idle process kept it, a small budget would have no room for incoming chunks.
    if (slab === this.#current) this.#current = null;
    this.#retire(slab);
  }

  #alone(bodyBytes: number): Uint8Array<SharedArrayBuffer> | null {
    if (bodyBytes <= this.#slabBytes || !this.#budget.take(bodyBytes)) return null;
    return new Uint8Array(new SharedArrayBuffer(bodyBytes));
  }

  #slabWithRoom(bodyBytes: number): Slab | null {
    const current = this.#current;
    if (current !== null && current.usedBytes + bodyBytes <= this.#slabBytes) return current;
    if (!this.#budget.take(this.#slabBytes)) return null;
    // The previous slab returns to the free list when its last body is released.
    this.#current = this.#free.pop() ?? new Slab(this.#slabBytes);
    return this.#current;
  }

  #retire(slab: Slab): void {
    slab.usedBytes = 0;
    this.#budget.give(this.#slabBytes);
    if (this.#free.length < this.#spareSlabs) this.#free.push(slab);
  }
}
