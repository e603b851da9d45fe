/** Thread entry point: verifies a batch of signatures. Stateless: bytes in, verdicts out. */
import { writeFileSync } from 'node:fs';
import { findKey, type Keyring, SIGNATURE_BYTES, VERIFY_THREAD } from '../server/signatures/check.ts';

try {
  // Node names no thread. The name lets `weir bench`, top and perf tell these threads from the others.
  writeFileSync('/proc/thread-self/comm', VERIFY_THREAD);
} catch {
  // Only Linux has this file.
}

/**
 * One message for many bodies, because a message costs the event loop more than the HMAC of a small body.
 * Bodies are spans of shared memory, so they are not copied. The arrays are flat, because each object in a message adds cost.
 */
export interface VerifyBatch {
  memories: SharedArrayBuffer[];
  /** Three numbers per request: index in `memories`, offset and length in bytes. */
  spans: Uint32Array;
  /** Signatures claimed by the requests, SIGNATURE_BYTES of the algorithm each, in request order. */
  claimed: Uint8Array;
  /** Number of claimed signatures per request. */
  claimedCounts: Uint8Array;
  /** Text signed before and after each body, two strings per request; null: every request signs its body alone. */
  affixes: readonly string[] | null;
  /** The keys of each webhook in the batch, current first. */
  keyrings: readonly Keyring[];
  /** For each request, the index of its webhook in `keyrings`. */
  keyringOf: Uint16Array;
}

/** Returns one byte per request: 0 if no key verifies any of its signatures, otherwise 1 + the index of the first key that does. */
export default function verifyBatch(batch: VerifyBatch): Uint8Array {
  const { affixes } = batch;
  const verdicts = new Uint8Array(batch.keyringOf.length);
  let at = 0;
  for (let i = 0; i < verdicts.length; i++) {
    const [memory, offset, length] = batch.spans.subarray(i * 3, i * 3 + 3) as unknown as [number, number, number];
    const body = new Uint8Array(batch.memories[memory]!, offset, length);
    const keyring = batch.keyrings[batch.keyringOf[i]!]!;
    const end = at + batch.claimedCounts[i]! * SIGNATURE_BYTES[keyring.algorithm];
    const prefix = affixes === null ? '' : affixes[i * 2]!;
    const suffix = affixes === null ? '' : affixes[i * 2 + 1]!;
    verdicts[i] = 1 + findKey(keyring, { prefix, body, suffix }, batch.claimed.subarray(at, end));
    at = end;
  }
  return verdicts;
}
