/**
 * Agent sessions, `ws_<base64url of: version, agent id, generation, expiry, HMAC-SHA256>`. Sessions are signed, not stored: any
 * process with the key verifies one without a query, against the agent's cached generation.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { uuidBytes, uuidText } from '../../store/ids.ts';

const VERSION = 1;
/** 1 byte version, 16 agent id, 4 generation, 6 expiry. */
const CLAIM_BYTES = 1 + 16 + 4 + 6;
const MAC_BYTES = 32;
const TEXT_CHARACTERS = Math.ceil(((CLAIM_BYTES + MAC_BYTES) * 4) / 3);

interface SessionClaim {
  agentId: string;
  generation: number;
  expiresAtMs: number;
}

/** A verified claim. */
export interface ReadClaim extends SessionClaim {
  /** Index of the key that signed it. */
  keyIndex: number;
}

/** @param key 32 bytes, derived for agent sessions. */
export function signSession({ agentId, generation, expiresAtMs }: SessionClaim, key: Buffer): string {
  const claim = Buffer.alloc(CLAIM_BYTES);
  claim[0] = VERSION;
  claim.set(uuidBytes(agentId), 1);
  claim.writeUInt32BE(generation, 17);
  claim.writeUIntBE(expiresAtMs, 21, 6);
  return `ws_${Buffer.concat([claim, macOf(claim, key)]).toString('base64url')}`;
}

/**
 * Returns the claim of a presented token that one of the keys signed and that has not expired; otherwise null. Compares
 * signatures in constant time. The caller checks the generation, and whether a previous key is still accepted.
 * @param longestMs a token that expires later than this from now was not created by Weir and is refused, whichever key signed it
 */
export function readSession(
  token: string,
  keys: readonly Buffer[],
  nowMs: number,
  longestMs: number,
): ReadClaim | null {
  if (!token.startsWith('ws_') || token.length !== 3 + TEXT_CHARACTERS) return null;
  const bytes = Buffer.from(token.slice(3), 'base64url');
  if (bytes.length !== CLAIM_BYTES + MAC_BYTES || bytes[0] !== VERSION) return null;
  // The last character has two spare bits, which the decoder drops. Without this check one session would have four texts.
  if (bytes.toString('base64url') !== token.slice(3)) return null;
  const claim = bytes.subarray(0, CLAIM_BYTES);
  const mac = bytes.subarray(CLAIM_BYTES);
  const keyIndex = keys.findIndex((key) => timingSafeEqual(mac, macOf(claim, key)));
  if (keyIndex < 0) return null;
  const expiresAtMs = claim.readUIntBE(21, 6);
  if (expiresAtMs <= nowMs || expiresAtMs > nowMs + longestMs) return null;
  return { agentId: uuidText(claim.subarray(1, 17)), generation: claim.readUInt32BE(17), expiresAtMs, keyIndex };
}

function macOf(claim: Buffer, key: Buffer): Buffer {
  return createHmac('sha256', key).update(claim).digest();
}
