/** Decompresses the bodies of requests, in threads of libuv, within the bounds of gzip.ts and of a budget for each client. */
import { gunzip } from 'node:zlib';
import type { ClientLoad } from '../../base/http/clients.ts';
import { GZIP_BYTES_MAX, inflatedMax } from '../../model/signatures/gzip.ts';

/** Thread time that the bodies of one client may take in a second: many small bodies can cost as much as a large one. */
export const CLIENT_MS_PER_SECOND = 100;
/** A body is charged this time until its real time is known. */
const WORST_MS_PER_BYTE = 20 / GZIP_BYTES_MAX;
const SECOND_MS = 1_000;

/** `exceeds`: over the bounds of a body. `busy`: over the budget of the client. `broken`: not gzip. */
export type Inflated = { kind: 'inflated'; bytes: Uint8Array } | { kind: 'exceeds' | 'busy' | 'broken' };

/** Copies the bytes into shared memory, which another thread can read in place. */
export function shared(bytes: Uint8Array): Uint8Array<SharedArrayBuffer> {
  const copy = new SharedArrayBuffer(bytes.length);
  // `set` would copy byte by byte. `fill` needs at least one byte.
  if (bytes.length > 0) Buffer.from(copy).fill(bytes);
  return new Uint8Array(copy);
}

export class Inflater {
  readonly #spent = new WeakMap<ClientLoad, { second: number; ms: number }>();

  /**
   * @param body must not change until `done`
   * @param done called once, at once or in a later turn
   */
  inflate(body: Uint8Array, client: ClientLoad, nowMs: number, done: (outcome: Inflated) => void): void {
    const maxOutputLength = inflatedMax(body.length);
    if (maxOutputLength === null) return done({ kind: 'exceeds' });
    const spent = this.#spentBy(client, Math.floor(nowMs / SECOND_MS));
    const worstMs = body.length * WORST_MS_PER_BYTE;
    if (spent.ms + worstMs > CLIENT_MS_PER_SECOND) return done({ kind: 'busy' });
    spent.ms += worstMs;
    const startMs = performance.now();
    gunzip(body, { maxOutputLength }, (error, bytes) => {
      // A wait for a thread counts too, up to the worst case.
      spent.ms -= Math.max(0, worstMs - (performance.now() - startMs));
      if (error === null) return done({ kind: 'inflated', bytes });
      done({ kind: (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? 'exceeds' : 'broken' });
    });
  }

  #spentBy(client: ClientLoad, second: number) {
    let spent = this.#spent.get(client);
    if (spent?.second !== second) {
      spent = { second, ms: 0 };
      this.#spent.set(client, spent);
    }
    return spent;
  }
}
