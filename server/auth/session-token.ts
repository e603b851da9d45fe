/**
 * Agent sessions, `ws_<base64url of: version, agent id, generation, expiry, HMAC-SHA256>`. Signed, not stored: any process
 * with the key checks one without a query, against the generation that it knows of the agent.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { uuidBytes, uuidText } from '../db/ids.ts';

const VERSION = 1;
/** Version, 16 of the agent's id, 4 of its generation, 6 of the expiry. */
const CLAIM_BYTES = 1 + 16 + 4 + 6;
const TAG_BYTES = 32;
const TEXT_CHARACTERS = Math.ceil(((CLAIM_BYTES + TAG_BYTES) * 4) / 3);

interface SessionClaim {
  agentId: string;
  generation: number;
  expiresAtMs: number;
}

/** A claim that was verified. */
interface ReadClaim extends SessionClaim {
  /** Of the key that signed it. */
  keyPlace: number;
}

/** @param key 32 bytes, derived for agent sessions. */
export function signSession({ agentId, generation, expiresAtMs }: SessionClaim, key: Buffer): string {
  const claim = Buffer.alloc(CLAIM_BYTES);
  claim[0] = VERSION;
  claim.set(uuidBytes(agentId), 1);
  claim.writeUInt32BE(generation, 17);
  claim.writeUIntBE(expiresAtMs, 21, 6);
  return `ws_${Buffer.concat([claim, tagOf(claim, key)]).toString('base64url')}`;
}

/**
 * The claim of a presented token, when one of the keys signed it and it has not expired; else null. Constant time over the
 * signature. Whether the generation is still the agent's, and a previous key still accepted, is the caller's question.
 * @param longestMs a token that ends later than this from now was not made by Weir, whatever key signed it: null.
 */
export function readSession(
  token: string,
  keys: readonly Buffer[],
  nowMs: number,
  longestMs: number,
): ReadClaim | null {
  if (!token.startsWith('ws_') || token.length !== 3 + TEXT_CHARACTERS) return null;
  const bytes = Buffer.from(token.slice(3), 'base64url');
  if (bytes.length !== CLAIM_BYTES + TAG_BYTES || bytes[0] !== VERSION) return null;
  // The last character has two bits to spare, which the decoder drops: one session would have four texts.
  if (bytes.toString('base64url') !== token.slice(3)) return null;
  const claim = bytes.subarray(0, CLAIM_BYTES);
  const tag = bytes.subarray(CLAIM_BYTES);
  const keyPlace = keys.findIndex((key) => timingSafeEqual(tag, tagOf(claim, key)));
  if (keyPlace < 0) return null;
  const expiresAtMs = claim.readUIntBE(21, 6);
  if (expiresAtMs <= nowMs || expiresAtMs > nowMs + longestMs) return null;
  return { agentId: uuidText(claim.subarray(1, 17)), generation: claim.readUInt32BE(17), expiresAtMs, keyPlace };
}

function tagOf(claim: Buffer, key: Buffer): Buffer {
  return createHmac('sha256', key).update(claim).digest();
}
