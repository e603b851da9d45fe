/** Thread entry point: verifies a batch of HMAC-SHA256 signatures. Pure: bytes in, verdicts out, nothing kept. */
import { createHmac, timingSafeEqual } from 'node:crypto';

const DIGEST_BYTES = 32;

/**
 * One message for many bodies: a message costs the event loop more than the HMAC of a small body.
 * Bodies are spans of shared memory, so nothing is copied; flat arrays, since each object in a message costs too.
 */
export interface HmacBatch {
  memories: SharedArrayBuffer[];
  /** Three numbers a request: place in `memories`, offset, length in bytes. */
  spans: Uint32Array;
  /** Digests that the requests claim, 32 bytes each, one request's after the other's. */
  claimed: Uint8Array;
  /** How many of them each request claims. */
  claimedCounts: Uint8Array;
  /** The secrets of one webhook, current first, for each webhook in the batch. */
  keyrings: (readonly Uint8Array[])[];
  /** For each request its place in `keyrings`. */
  keyringOf: Uint16Array;
}

/** For each request 0 when no secret verifies any of its digests, else 1 + the place in its keyring of the one that does. */
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

/** Compares with every claimed digest in constant time (RFC 2104). */
function verifies(body: Uint8Array, secret: Uint8Array, claimed: Uint8Array): boolean {
  const digest = createHmac('sha256', secret).update(body).digest();
  let found = false;
  for (let at = 0; at < claimed.length; at += DIGEST_BYTES)
    if (timingSafeEqual(digest, claimed.subarray(at, at + DIGEST_BYTES))) found = true;
  return found;
}
