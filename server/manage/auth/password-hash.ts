/** Hashes passwords with argon2id (RFC 9106). Few run at a time, because each uses memory and a core. */
import { randomBytes } from 'node:crypto';
import { type Algorithm, hash, parseOptions, verify } from '@node-rs/argon2';
import { inTurns } from '../../base/time/every.ts';
import { normalPassword } from '../../model/passwords/rules.ts';

/** The second option in OWASP's Password Storage Cheat Sheet. A hash takes 10 ms of one core. */
export const MEMORY_KIB = 19_456;
export const PASSES = 2;
export const LANES = 1;
/** Value of the package's const enum, which does not exist at run time after type stripping. */
const ARGON2ID: Algorithm.Argon2id = 2;
const parameters = { algorithm: ARGON2ID, memoryCost: MEMORY_KIB, timeCost: PASSES, parallelism: LANES };

/** Concurrent hashes in a process. A flood of sign-ins uses at most 38 MiB and two threads of libuv's pool. */
export const HASHES_AT_A_TIME = 2;
/** Maximum hashing tasks running or waiting. Above it, the response is 503. */
export const HASHING_WORK_MAX = 64;

/**
 * Verified in place of a missing hash. It costs the same work, and a password matches only by chance. Salt and digest are zeros.
 */
const noHash = `$argon2id$v=19$m=${MEMORY_KIB},t=${PASSES},p=${LANES}$${'A'.repeat(22)}$${'A'.repeat(43)}`;

/** Creates and verifies hashes within `Passwords.admit`. */
export interface Hasher {
  /** Resolves with the hash in PHC string format. */
  hash(password: string): Promise<string>;
  /** If `stored` is null, does the same work and resolves with false. */
  verify(stored: string | null, password: string): Promise<boolean>;
}

export class Passwords {
  readonly #onComputed: () => void;
  #admitted = 0;
  readonly #inTurn = inTurns(HASHES_AT_A_TIME);

  /** @param onComputed called for each hash created or verified. */
  constructor(onComputed: () => void = () => {}) {
    this.#onComputed = onComputed;
  }

  /** Number of admitted tasks that have not ended. */
  get admitted(): number {
    return this.#admitted;
  }

  /** Runs a hashing task. Returns null immediately if HASHING_WORK_MAX tasks are running or waiting. */
  async admit<T>(work: (hasher: Hasher) => Promise<T>): Promise<T | null> {
    if (this.#admitted >= HASHING_WORK_MAX) return null;
    this.#admitted++;
    try {
      return await work(this.#hasher);
    } finally {
      this.#admitted--;
    }
  }

  readonly #hasher: Hasher = {
    hash: (password) => this.#compute(() => hash(normalPassword(password), parameters)),
    verify: async (stored, password) => {
      const fits = await this.#compute(() => verify(stored ?? noHash, normalPassword(password)));
      return fits && stored !== null;
    },
  };

  #compute<T>(work: () => Promise<T>): Promise<T> {
    return this.#inTurn(() => {
      this.#onComputed();
      return work();
    });
  }
}

/** True if a hash was created with parameters other than the current ones. */
export function isOutdated(stored: string): boolean {
  const made = parseOptions(stored);
  return (
    made.algorithm !== ARGON2ID ||
    made.memoryCost !== MEMORY_KIB ||
    made.timeCost !== PASSES ||
    made.parallelism !== LANES
  );
}

/** Generates a password of 120 random bits that is easy to type: six groups of four letters and digits. */
export function generatePassword(): string {
  const letters = Array.from(randomBytes(24), (byte) => ALPHABET[byte % ALPHABET.length]);
  return Array.from({ length: 6 }, (_, group) => letters.slice(group * 4, group * 4 + 4).join('')).join('-');
}

/** 32 characters, so that a random byte selects each with equal probability. Without i, l, o and u. */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
