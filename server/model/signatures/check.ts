/** Checks signatures. The threads use it for requests, and the server for stored rejections. */
import { createHmac, createPublicKey, createVerify, hash, type KeyObject, timingSafeEqual, verify } from 'node:crypto';
import { checkGraph, checkMailgun, twilioContent } from './code-schemes.ts';
import type { Algorithm } from './definition.ts';

/** Name of the threads that verify, as /proc, top and perf show it; at most 15 characters. */
export const VERIFY_THREAD = 'weir-verify';
/** Numbers per request in a message to a thread (workers/hmac.ts). */
export const REQUEST_NUMBERS = 6;

/** Keys of a webhook, current first. For an algorithm with a public key: SubjectPublicKeyInfo (DER). */
export interface Keyring {
  readonly algorithm: Algorithm;
  readonly keys: readonly Uint8Array[];
}

/** The signed text is `prefix`, the body, `suffix`. */
interface SignedText {
  prefix: string;
  body: Uint8Array;
  suffix: string;
}

/** Bytes of one signature in a message to a thread. An ECDSA signature in DER is padded with zeros. */
export const SIGNATURE_BYTES: Readonly<Record<Algorithm, number>> = {
  'hmac-sha256': 32,
  'hmac-sha1': 20,
  'hmac-sha512': 64,
  ed25519: 64,
  'ecdsa-p256': 72,
  token: 32,
  basic: 32,
  twilio: 20,
  // The signature is in the body.
  mailgun: 0,
  'microsoft-graph': 0,
};

/** All algorithms, in the order of their numbers in a message to a thread. */
export const algorithms = Object.keys(SIGNATURE_BYTES) as Algorithm[];

/** Public keys parsed by this thread: parsing costs more than half of a verification. At the limit all are dropped. */
const PARSED_KEYS_MAX = 1_000;
const parsedKeys = new Map<string, KeyObject>();

/**
 * Returns the index of the first key that verifies one of the presented signatures, or -1. Compares in constant time.
 * @param presented signatures of SIGNATURE_BYTES each.
 */
export function findKey({ algorithm, keys }: Keyring, text: SignedText, presented: Uint8Array): number {
  const verifies = checks[algorithm];
  return keys.findIndex((key) => verifies(key, text, presented));
}

type Check = (key: Uint8Array, text: SignedText, presented: Uint8Array) => boolean;

const checks: Readonly<Record<Algorithm, Check>> = {
  'hmac-sha256': (key, text, presented) => isAmong(hmac('sha256', key, text), presented),
  'hmac-sha1': (key, text, presented) => isAmong(hmac('sha1', key, text), presented),
  'hmac-sha512': (key, text, presented) => isAmong(hmac('sha512', key, text), presented),
  // Ed25519 reads its message twice, so the parts are joined: the only copy of a body.
  ed25519: (key, { prefix, body, suffix }, presented) => {
    const message = Buffer.concat([Buffer.from(prefix), body, Buffer.from(suffix)]);
    return some(presented, 64, (signature) => verify(null, message, parsed(key), signature));
  },
  'ecdsa-p256': (key, { prefix, body, suffix }, presented) =>
    some(presented, 72, (padded) => {
      const signature = padded.subarray(0, 2 + padded[1]!);
      return createVerify('sha256').update(prefix).update(body).update(suffix).verify(parsed(key), signature);
    }),
  token: (key, _text, presented) => isAmong(key, presented),
  basic: (key, _text, presented) => isAmong(key, presented),
  twilio: (key, { prefix: url, body }, presented) => {
    const content = twilioContent(url, body);
    return content !== null && isAmong(createHmac('sha1', key).update(content).digest(), presented);
  },
  mailgun: (key, { body }) => checkMailgun(key, body),
  'microsoft-graph': (key, { body }) => checkGraph(key, body),
};

/**
 * HMAC (RFC 2104). A short text is copied behind the key and hashed by two calls that create no object: 2.1 us for 1 KiB, 3.0 with
 * createHmac; 11.5 and 11.1 for 16 KiB (medians of 15 rounds in turns, Node 20). Text output, because Buffers cost 0.6 us more a call.
 */
export function hmac(name: HmacHash, key: Uint8Array, text: SignedText): Buffer {
  const { prefix, body, suffix } = text;
  const block = BLOCK_BYTES[name];
  // A UTF-16 unit takes at most three bytes of UTF-8.
  const bytesMax = (prefix.length + suffix.length) * 3 + body.length;
  if (key.length > block || bytesMax > ONE_SHOT_BYTES_MAX) return streamedHmac(name, key, text);
  padKey(name, key);
  // A call costs 57 ns even for an empty text.
  let end = block + (prefix === '' ? 0 : inner.write(prefix, block));
  // Not `set`, which copies from shared memory byte by byte unless both sides are aligned.
  inner.fill(body, end, end + body.length);
  end += body.length;
  if (suffix !== '') end += inner.write(suffix, end);
  const outerEnd = block + outer.write(hash(name, inner.subarray(0, end)), block, 'hex');
  return Buffer.from(hash(name, outer.subarray(0, outerEnd)), 'hex');
}

type HmacHash = keyof typeof BLOCK_BYTES;

/** Block size of the hash: the key is padded to it. */
const BLOCK_BYTES = { sha1: 64, sha256: 64, sha512: 128 };
const BLOCK_BYTES_MAX = 128;
const DIGEST_BYTES_MAX = 64;
/** A longer text is hashed in place. */
const ONE_SHOT_BYTES_MAX = 4_096;
const inner = Buffer.alloc(BLOCK_BYTES_MAX + ONE_SHOT_BYTES_MAX);
const outer = Buffer.alloc(BLOCK_BYTES_MAX + DIGEST_BYTES_MAX);
/** The key and hash whose blocks `inner` and `outer` begin with. The requests of a batch often have the same key object. */
let paddedKey: Uint8Array | null = null;
let paddedHash: HmacHash | null = null;

function padKey(name: HmacHash, key: Uint8Array): void {
  if (key === paddedKey && name === paddedHash) return;
  writeKey(inner, key, BLOCK_BYTES[name], 0x36);
  writeKey(outer, key, BLOCK_BYTES[name], 0x5c);
  paddedKey = key;
  paddedHash = name;
}

function writeKey(to: Buffer, key: Uint8Array, block: number, pad: number): void {
  to.fill(pad, 0, block);
  for (let i = 0; i < key.length; i++) to[i] = key[i]! ^ pad;
}

/** HMAC of a text that is hashed in place. Empty parts are skipped, because a call costs time for them too. */
function streamedHmac(name: HmacHash, key: Uint8Array, { prefix, body, suffix }: SignedText): Buffer {
  const mac = createHmac(name, key);
  if (prefix !== '') mac.update(prefix);
  mac.update(body);
  if (suffix !== '') mac.update(suffix);
  return mac.digest();
}

/** Whether one of the presented values equals `digest`. Compares with all of them. */
function isAmong(digest: Uint8Array, presented: Uint8Array): boolean {
  let found = false;
  for (let at = 0; at < presented.length; at += digest.length)
    if (timingSafeEqual(digest, presented.subarray(at, at + digest.length))) found = true;
  return found;
}

function some(presented: Uint8Array, bytes: number, test: (signature: Uint8Array) => boolean): boolean {
  for (let at = 0; at < presented.length; at += bytes) if (test(presented.subarray(at, at + bytes))) return true;
  return false;
}

function parsed(der: Uint8Array): KeyObject {
  const name = Buffer.from(der).toString('latin1');
  let key = parsedKeys.get(name);
  if (key === undefined) {
    if (parsedKeys.size >= PARSED_KEYS_MAX) parsedKeys.clear();
    key = createPublicKey({ key: Buffer.from(der), format: 'der', type: 'spki' });
    parsedKeys.set(name, key);
  }
  return key;
}
