/**
 * Until when something that SECRETS_KEY_PREVIOUS signed is accepted. Its key may have leaked, so that anybody could sign with it: it is
 * accepted only for as long as a thing lasts that was signed before the replacement, whose time the database keeps.
 */

import type { Database } from '../db/pool.ts';
import { readReplacedSeconds } from '../db/queries/secrets-keys.ts';
import type { SecretsKeys } from './keys.ts';
import { fingerprintOf } from './seal.ts';

/** Clocks of machines that share a database may differ by this much: a session of one must not look too long to another. */
export const CLOCK_DIFFERENCE_MS = 10_000;

export class PreviousKey {
  readonly #database: Database;
  readonly #fingerprint: Buffer | null;

  constructor(database: Database, [, previous]: SecretsKeys) {
    this.#database = database;
    this.#fingerprint = previous === undefined ? null : fingerprintOf(previous);
  }

  /**
   * Whether the key was replaced less than `seconds` ago, or is still the current one at another machine. Asks the database, so ask only of
   * what the key has really signed. Rejects with DatabaseUnavailable.
   */
  async isAccepted(seconds: number): Promise<boolean> {
    if (this.#fingerprint === null) return false;
    const replacedSeconds = await readReplacedSeconds(this.#database, this.#fingerprint);
    if (replacedSeconds === undefined) return false;
    return replacedSeconds === null || replacedSeconds < seconds;
  }
}
