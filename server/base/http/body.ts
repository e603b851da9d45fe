/** Streams a request body into memory, up to a size cap. */
import type { HttpResponse } from 'uWebSockets.js';
import type { ClientLoad } from './clients.ts';
import type { ByteBudget, HeldBody, SlabArena } from './memory.ts';

export type BodyOutcome =
  | { kind: 'complete'; bytes: Uint8Array<SharedArrayBuffer> }
  | { kind: 'too_large' }
  | { kind: 'memory_full' }
  | { kind: 'client_busy' }
  | { kind: 'aborted' };

interface BodyFacts {
  declaredBytes: number | null;
  capBytes: number;
  chunked: boolean;
  cell: number;
}

/**
 * After an early answer, up to this much of the body is read and dropped. If more is due, the connection is closed, and a client that is still
 * sending may not see the answer. The limit is above the default payload cap, so that the sender of a body just over the cap sees the 413.
 */
const DISCARD_BYTES_MAX = 2_097_152;
const NO_CHUNKS: readonly Uint8Array[] = [];

/** The memory that holds bodies. One per process. */
export interface BodyMemory {
  budget: ByteBudget;
  arena: SlabArena;
  /** Maximum bytes of incomplete bodies of one client (CLIENT_BODY_BYTES_HELD_MAX). */
  clientBytesMax: number;
}

/**
 * Receives one body. A body of one chunk goes straight into a slab. The chunks of other bodies are kept outside the slabs until the
 * body is complete: a slow sender pins no slab.
 */
export class BodyReader {
  readonly #memory: BodyMemory;
  readonly #client: ClientLoad;
  readonly #capBytes: number;
  readonly #declaredBytes: number;
  readonly #chunked: boolean;
  readonly #cell: number;
  readonly #onEnd: () => void;
  #chunks: Chunks | null = null;
  #settled = false;
  #abandoned = false;
  #held: HeldBody | null = null;
  receivedBytes = 0;
  /** True once the last byte arrived, even if the body was dropped. */
  complete = false;
  /** Null until the body has ended: it is complete, refused, or its client disconnected. */
  outcome: BodyOutcome | null = null;

  /**
   * @param onEnd called once, when `outcome` is set; possibly from within the constructor.
   * @param facts.declaredBytes the Content-Length; null if absent.
   * @param facts.capBytes the largest body that is accepted.
   * @param facts.cell see SlabArena.
   * @param facts.chunked true: the outcome waits until all bytes received with the last chunk are parsed. A request or an error among
   * them closes the connection, and the outcome is `aborted`.
   */
  constructor(res: HttpResponse, memory: BodyMemory, client: ClientLoad, facts: BodyFacts, onEnd: () => void) {
    const { declaredBytes, capBytes } = facts;
    this.#memory = memory;
    this.#client = client;
    this.#capBytes = capBytes;
    this.#declaredBytes = declaredBytes ?? 0;
    this.#chunked = facts.chunked;
    this.#cell = facts.cell;
    this.#onEnd = onEnd;
    // uWebSockets.js keeps calling this after an answer was sent. The bytes are then dropped.
    res.onData((chunk, isLast) => this.#onChunk(new Uint8Array(chunk), isLast));
    if (declaredBytes !== null && declaredBytes > capBytes) this.#end({ kind: 'too_large' });
  }

  /** True if more of the body is due than is worth reading to keep the connection. */
  get restIsTooLong(): boolean {
    return !this.complete && this.#declaredBytes - this.receivedBytes > DISCARD_BYTES_MAX;
  }

  /** Releases the gathered chunks after the client disconnected. A complete body stays valid until `release`. */
  abandon(): void {
    this.#abandoned = true;
    this.#end({ kind: 'aborted' });
  }

  /** Releases all memory. The caller that started the read calls it once nothing reads the bytes any more. */
  release(): void {
    this.abandon();
    if (this.#held !== null) this.#memory.arena.release(this.#held);
    this.#held = null;
  }

  #onChunk(chunk: Uint8Array, isLast: boolean): void {
    this.receivedBytes += chunk.length;
    this.complete = isLast;
    if (this.#settled) return;
    if (this.receivedBytes > this.#capBytes) this.#end({ kind: 'too_large' });
    else if (isLast) this.#finish(chunk);
    else if (chunk.length > 0) this.#gather(chunk);
  }

  #finish(lastChunk: Uint8Array): void {
    const chunks = this.#chunks?.all ?? NO_CHUNKS;
    // Release the chunks before allocating the slab, so that one body is not counted twice. They are copied within this turn.
    this.#giveBack();
    const body = this.#memory.arena.hold(chunks, lastChunk, this.receivedBytes, this.#cell);
    this.#held = body;
    this.#end(body === null ? { kind: 'memory_full' } : { kind: 'complete', bytes: body.bytes });
  }

  #gather(chunk: Uint8Array): void {
    if (this.#client.gatheringBytes + chunk.length > this.#memory.clientBytesMax)
      return this.#end({ kind: 'client_busy' });
    if (!this.#memory.budget.take(chunk.length)) return this.#end({ kind: 'memory_full' });
    this.#client.gatheringBytes += chunk.length;
    this.#chunks ??= new Chunks();
    this.#chunks.add(chunk);
  }

  #end(outcome: BodyOutcome): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#giveBack();
    if (this.#chunked) setImmediate(() => this.#report(this.#abandoned ? { kind: 'aborted' } : outcome));
    else this.#report(outcome);
  }

  #report(outcome: BodyOutcome): void {
    this.outcome = outcome;
    this.#onEnd();
  }

  #giveBack(): void {
    if (this.#chunks === null) return;
    const { bytes } = this.#chunks;
    this.#memory.budget.give(bytes);
    this.#client.gatheringBytes -= bytes;
    this.#chunks = null;
  }
}

/** Chunks in a run. A run is merged or kept as a whole. */
const RUN_CHUNKS = 16;
/**
 * A run of fewer bytes is merged into one chunk: 1 MiB in chunks of 10 bytes takes 1.2 to 1.6 MiB of the heap instead of 22.5, at 0.3 us a
 * chunk. Runs of TCP segments (1,460 bytes a chunk) are larger, and are not copied again.
 */
const RUN_BYTES_MIN = 16_384;

/** The chunks of an incomplete body: at most RUN_CHUNKS, and one more for each 1,024 bytes, so that memory follows the bytes received. */
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
      this.#all.push(merged);
      return;
    }
    this.#runStart = this.#all.length;
    this.#runBytes = 0;
  }
}
