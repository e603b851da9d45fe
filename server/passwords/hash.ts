/** Hashes of passwords: argon2id (RFC 9106), few at a time, since each takes memory and a core. */

import { randomBytes } from 'node:crypto';
import { type Algorithm, hash, parseOptions, verify } from '@node-rs/argon2';
import { normalPassword } from './rules.ts';

/** The second choice of OWASP's Password Storage Cheat Sheet; 10 ms of one core. */
export const MEMORY_KIB = 19_456;
export const PASSES = 2;
export const LANES = 1;
/** A const enum of the package, which is gone when types are stripped. */
const ARGON2ID: Algorithm.Argon2id = 2;
const parameters = { algorithm: ARGON2ID, memoryCost: MEMORY_KIB, timeCost: PASSES, parallelism: LANES };

/** At a time in a process, so that a flood of sign-ins takes 38 MiB at most, and two threads of libuv's four. */
export const HASHES_AT_A_TIME = 2;
/** Pieces of work that hash, under way or waiting; past it the answer is 503. */
export const HASHING_WORK_MAX = 64;

/**
 * What is verified where there is no hash: as much work, and no password fits but by chance. Salt and digest are zeros.
 */
const noHash = `$argon2id$v=19$m=${MEMORY_KIB},t=${PASSES},p=${LANES}$${'A'.repeat(22)}$${'A'.repeat(43)}`;

/** Makes and checks hashes within `Passwords.admit`. */
export interface Hasher {
  /** In PHC form. */
  hash(password: string): Promise<string>;
  /** With null the same work is done, and the answer is false. */
  verify(stored: string | null, password: string): Promise<boolean>;
}

export class Passwords {
  readonly #onComputed: () => void;
  #admitted = 0;
  #computing = 0;
  readonly #waiting: (() => void)[] = [];

  /** @param onComputed told of each hash, made or verified. */
  constructor(onComputed: () => void = () => {}) {
    this.#onComputed = onComputed;
  }

  /** Pieces of work that were admitted and have not ended. */
  get admitted(): number {
    return this.#admitted;
  }

  /** Runs work that hashes; null, at once, when too much such work is under way. */
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
    hash: (password) => this.#inTurn(() => hash(normalPassword(password), parameters)),
    verify: async (stored, password) => {
      const fits = await this.#inTurn(() => verify(stored ?? noHash, normalPassword(password)));
      return fits && stored !== null;
    },
  };

  async #inTurn<T>(compute: () => Promise<T>): Promise<T> {
    if (this.#computing < HASHES_AT_A_TIME) this.#computing++;
    // Whoever is before hands on its place.
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      this.#onComputed();
      return await compute();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#computing--;
      else next();
    }
  }
}

/** True of a hash that was made with other parameters than today's. */
export function isOutdated(stored: string): boolean {
  const made = parseOptions(stored);
  return (
    made.algorithm !== ARGON2ID ||
    made.memoryCost !== MEMORY_KIB ||
    made.timeCost !== PASSES ||
    made.parallelism !== LANES
  );
}

/** 120 random bits as a person can type them: six groups of four letters and digits. */
export function generatePassword(): string {
  const letters = Array.from(randomBytes(24), (byte) => ALPHABET[byte % ALPHABET.length]);
  return Array.from({ length: 6 }, (_, group) => letters.slice(group * 4, group * 4 + 4).join('')).join('-');
}

/** 32 characters, so that a byte picks each of them as often. Without i, l, o and u. */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
