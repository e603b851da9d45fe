/** Thread entry point: verifies a batch of HMAC-SHA256 signatures. Stateless: bytes in, verdicts out. */
import { createHmac, timingSafeEqual } from 'node:crypto';

const DIGEST_BYTES = 32;

/**
 * One message for many bodies, because a message costs the event loop more than the HMAC of a small body.
 * Bodies are spans of shared memory, so they are not copied. The arrays are flat, because each object in a message adds cost.
 */
export interface HmacBatch {
  memories: SharedArrayBuffer[];
  /** Three numbers per request: index in `memories`, offset and length in bytes. */
  spans: Uint32Array;
  /** Digests claimed by the requests, 32 bytes each, in request order. */
  claimed: Uint8Array;
  /** Number of claimed digests per request. */
  claimedCounts: Uint8Array;
  /** For each webhook in the batch, its secrets, current first. */
  keyrings: (readonly Uint8Array[])[];
  /** For each request, the index of its webhook in `keyrings`. */
  keyringOf: Uint16Array;
}

/** Returns one byte per request: 0 if no secret verifies any of its digests, otherwise 1 + the index of the first secret that does. */
export default function verifyBatch(batch: HmacBatch): Uint8Array {
  const verdicts = new Uint8Array(batch.keyringOf.length);
  let at = 0;
  for (let i = 0; i < verdicts.length; i++) {
    const [memory, offset, length] = batch.spans.subarray(i * 3, i * 3 + 3) as unknown as [number, number, number];
    const body = new Uint8Array(batch.memories[memory]!, offset, length);
    const end = at + batch.claimedCounts[i]! * DIGEST_BYTES;
    const claimed = batch.claimed.subarray(at, end);
    verdicts[i] = 1 + batch.keyrings[batch.keyringOf[i]!]!.findIndex((secret) => verifies(body, secret, claimed));
    at = end;
  }
  return verdicts;
}

/** Compares the HMAC (RFC 2104) with every claimed digest in constant time. */
function verifies(body: Uint8Array, secret: Uint8Array, claimed: Uint8Array): boolean {
  const digest = createHmac('sha256', secret).update(body).digest();
  let found = false;
  for (let at = 0; at < claimed.length; at += DIGEST_BYTES)
    if (timingSafeEqual(digest, claimed.subarray(at, at + DIGEST_BYTES))) found = true;
  return found;
}
