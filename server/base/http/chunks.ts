/** The chunks of an incomplete body. Small chunks are merged, so that memory follows the bytes received and not the number of reads. */

/** Chunks are looked at in runs of this many. */
const RUN_CHUNKS = 16;
/**
 * A run of fewer bytes is merged into one chunk. A copied chunk of 10 bytes takes 226 bytes of the heap, so that 1 MiB in chunks of 10
 * bytes took 23 MiB; merged, it takes 1.2 MiB, at 0.7 us a chunk instead of 0.6 (Node 20). Runs of TCP segments (1,460 bytes a chunk)
 * are larger, and are not copied again: with 480 bytes of resident memory for each beside its bytes, they take a third more.
 */
const RUN_BYTES_MIN = 16_384;

/** Holds at most RUN_CHUNKS chunks, and one more for each 1,024 bytes. */
export class Chunks {
  readonly #all: Uint8Array[] = [];
  /** Index of the first chunk of the last run, and the bytes of that run. */
  #runStart = 0;
  #runBytes = 0;
  bytes = 0;

  get all(): readonly Uint8Array[] {
    return this.#all;
  }

  /** Adds a copy: uWebSockets.js invalidates the chunk's memory when its handler returns. */
  add(chunk: Uint8Array): void {
    this.#all.push(chunk.slice());
    this.bytes += chunk.length;
    this.#runBytes += chunk.length;
    if (this.#all.length - this.#runStart === RUN_CHUNKS) this.#endRun();
  }

  #endRun(): void {
    if (this.#runBytes < RUN_BYTES_MIN) {
      const merged = new Uint8Array(this.#runBytes);
      let at = 0;
      for (const chunk of this.#all.splice(this.#runStart)) {
        merged.set(chunk, at);
        at += chunk.length;
      }
      // The merged chunk is the first one of the next run.
      this.#all.push(merged);
      return;
    }
    this.#runStart = this.#all.length;
    this.#runBytes = 0;
  }
}
