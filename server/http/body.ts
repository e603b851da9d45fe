/** Streams a request body into memory and stops at the cap. */
import type { HttpResponse } from 'uWebSockets.js';
import type { ClientLoad } from './clients.ts';
import type { ByteBudget, HeldBody, SlabArena } from './memory.ts';

export type BodyOutcome =
  | { kind: 'complete'; bytes: Uint8Array<SharedArrayBuffer> }
  | { kind: 'too_large' }
  | { kind: 'memory_full' }
  | { kind: 'client_busy' }
  | { kind: 'aborted' };

interface BodySize {
  declaredBytes: number | null;
  capBytes: number;
  chunked: boolean;
}

/** What bodies are held in; one for a process. */
export interface BodyMemory {
  budget: ByteBudget;
  arena: SlabArena;
  /** Unfinished bytes of one client (CLIENT_BODY_BYTES_HELD_MAX). */
  clientBytesMax: number;
}

/**
 * One body on its way. A first chunk that is also the last goes straight into a slab; other bodies gather privately,
 * so that a slow sender pins no slab.
 */
export class BodyReader {
  readonly #memory: BodyMemory;
  readonly #client: ClientLoad;
  readonly #capBytes: number;
  readonly #chunked: boolean;
  readonly #settle: (outcome: BodyOutcome) => void;
  #chunks: Uint8Array[] = [];
  #settled = false;
  #abandoned = false;
  #held: HeldBody | null = null;
  receivedBytes = 0;
  /** True once the last byte arrived, wanted or not. */
  complete = false;
  readonly outcome: Promise<BodyOutcome>;

  /**
   * @param size.declaredBytes the Content-Length; null without one.
   * @param size.capBytes a body of this size passes, one byte more does not.
   * @param size.chunked the outcome waits until all bytes that came with the last chunk are parsed: a request or an error among
   * them ends the connection, and then it is `aborted`.
   */
  constructor(res: HttpResponse, memory: BodyMemory, client: ClientLoad, size: BodySize) {
    const { declaredBytes, capBytes } = size;
    this.#memory = memory;
    this.#client = client;
    this.#capBytes = capBytes;
    this.#chunked = size.chunked;
    let resolve!: (outcome: BodyOutcome) => void;
    this.outcome = new Promise((settle) => {
      resolve = settle;
    });
    this.#settle = resolve;
    // uWebSockets.js goes on calling this after an answer was sent; then the bytes are let go.
    res.onData((chunk, isLast) => this.#onChunk(new Uint8Array(chunk), isLast));
    if (declaredBytes !== null && declaredBytes > capBytes) this.#end({ kind: 'too_large' });
  }

  /** The client is gone: what was gathered is let go. A body that is complete stays until `release`. */
  abandon(): void {
    this.#abandoned = true;
    this.#end({ kind: 'aborted' });
  }

  /** Gives back all memory; whoever started to read calls it when nothing looks at the bytes any more. */
  release(): void {
    this.abandon();
    this.#held?.release();
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
    const chunks = [...this.#chunks, lastChunk];
    // Given back first: they are copied and gone before this turn ends, and a body must not have to fit in twice.
    this.#giveBack();
    const body = this.#memory.arena.hold(chunks, this.receivedBytes);
    this.#held = body;
    this.#end(body === null ? { kind: 'memory_full' } : { kind: 'complete', bytes: body.bytes });
  }

  #gather(chunk: Uint8Array): void {
    if (this.#client.gatheringBytes + chunk.length > this.#memory.clientBytesMax)
      return this.#end({ kind: 'client_busy' });
    if (!this.#memory.budget.take(chunk.length)) return this.#end({ kind: 'memory_full' });
    this.#client.gatheringBytes += chunk.length;
    // The chunk's memory is taken back when this call returns.
    this.#chunks.push(chunk.slice());
  }

  #end(outcome: BodyOutcome): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#giveBack();
    if (this.#chunked) setImmediate(() => this.#settle(this.#abandoned ? { kind: 'aborted' } : outcome));
    else this.#settle(outcome);
  }

  #giveBack(): void {
    for (const chunk of this.#chunks) {
      this.#memory.budget.give(chunk.length);
      this.#client.gatheringBytes -= chunk.length;
    }
    this.#chunks = [];
  }
}
