/** Thread entry point: verifies a batch of signatures. Stateless: bytes in, verdicts out. */
import { writeFileSync } from 'node:fs';
import type { MessagePort } from 'node:worker_threads';
import {
  algorithms,
  findKey,
  type Keyring,
  REQUEST_NUMBERS,
  SIGNATURE_BYTES,
  VERIFY_THREAD,
} from '../server/model/signatures/check.ts';

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
  /**
   * REQUEST_NUMBERS per request: index in `memories`, offset and length in bytes, index in `keyrings`, number of signatures, number of
   * texts that the sender may have signed.
   */
  requests: Uint32Array;
  /** Signatures that the requests present, SIGNATURE_BYTES of the algorithm each, in request order. */
  signatures: Uint8Array;
  /** Text signed before and after each body, two strings per text; null: every request signs its body alone. */
  affixes: readonly string[] | null;
  /** Each keyring is the index of its algorithm in `algorithms`, its number of keys, and the length of each key in bytes. */
  keyrings: Uint32Array;
  /** The keys of all keyrings, one after another. */
  keys: Uint8Array;
}

/** Answers each batch that arrives on the port with its verdicts, until the port closes. A failure ends the thread. */
export default function serve(port: MessagePort, verify = verifyBatch): Promise<void> {
  return new Promise((resolve) => {
    port.on('message', (batch: VerifyBatch) => port.postMessage(verify(batch)));
    port.once('close', resolve);
  });
}

/** Returns one byte per request: 0 if no key verifies any of its signatures, otherwise 1 + the index of the first key that does. */
export function verifyBatch(batch: VerifyBatch): Uint8Array {
  const { memories, requests, signatures, affixes } = batch;
  const keyrings = keyringsOf(batch);
  const verdicts = new Uint8Array(requests.length / REQUEST_NUMBERS);
  let at = 0;
  let signaturesAt = 0;
  let affixesAt = 0;
  for (let i = 0; i < verdicts.length; i++) {
    const memory = memories[requests[at++]!]!;
    const body = new Uint8Array(memory, requests[at++]!, requests[at++]!);
    const keyring = keyrings[requests[at++]!]!;
    const end = signaturesAt + requests[at++]! * SIGNATURE_BYTES[keyring.algorithm];
    const presented = signatures.subarray(signaturesAt, end);
    const affixesEnd = affixesAt + requests[at++]! * 2;
    for (; affixesAt < affixesEnd; affixesAt += 2) {
      const prefix = affixes === null ? '' : affixes[affixesAt]!;
      const suffix = affixes === null ? '' : affixes[affixesAt + 1]!;
      if (verdicts[i] === 0) verdicts[i] = 1 + findKey(keyring, { prefix, body, suffix }, presented);
    }
    signaturesAt = end;
  }
  return verdicts;
}

function keyringsOf({ keyrings, keys }: Pick<VerifyBatch, 'keyrings' | 'keys'>): Keyring[] {
  const all: Keyring[] = [];
  let keysAt = 0;
  for (let at = 0; at < keyrings.length; ) {
    const algorithm = algorithms[keyrings[at++]!]!;
    const own: Uint8Array[] = [];
    for (let left = keyrings[at++]!; left > 0; left--) {
      const bytes = keyrings[at++]!;
      own.push(keys.subarray(keysAt, keysAt + bytes));
      keysAt += bytes;
    }
    all.push({ algorithm, keys: own });
  }
  return all;
}
