/**
 * Decides whether a value signed with SECRETS_KEY_PREVIOUS is still accepted. That key may have leaked, and an attacker could sign with
 * it. It is therefore accepted only for the lifetime of values signed before the replacement. The database stores the replacement time.
 */

import type { Database } from '../db/pool.ts';
import { readReplacedSeconds } from '../db/queries/secrets-keys.ts';
import type { SecretsKeys } from './keys.ts';
import { fingerprintOf } from './seal.ts';

/** Allowed clock difference between machines that share a database: a session of one must not look too long to another. */
export const CLOCK_DIFFERENCE_MS = 10_000;

export class PreviousKey {
  readonly #database: Database;
  readonly #fingerprint: Buffer | null;

  constructor(database: Database, [, previous]: SecretsKeys) {
    this.#database = database;
    this.#fingerprint = previous === undefined ? null : fingerprintOf(previous);
  }

  /**
   * Returns true if the key was replaced less than `seconds` ago, or is still the current key on another machine. Queries the database,
   * so call it only for values with a valid signature. Rejects with DatabaseUnavailable.
   */
  async isAccepted(seconds: number): Promise<boolean> {
    if (this.#fingerprint === null) return false;
    const replacedSeconds = await readReplacedSeconds(this.#database, this.#fingerprint);
    if (replacedSeconds === undefined) return false;
    return replacedSeconds === null || replacedSeconds < seconds;
  }
}
