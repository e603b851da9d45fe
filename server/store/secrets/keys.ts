/** The keys from SECRETS_KEY or DATA_DIR: loading, checking against the database, and the time for which a previous key is accepted. */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { weirCommand } from '../../base/command/name.ts';
import { createDataDir, keyPath } from '../../base/files/data-dir.ts';
import { flushDirectory } from '../../base/files/durable-file.ts';
import type { Settings } from '../../base/settings/read.ts';
import { OperatorError } from '../../model/fault.ts';
import type { Database } from '../connect/pool.ts';
import { readReplacedSeconds } from '../queries/secrets/secrets-keys.ts';
import { findDecryptable } from '../queries/webhooks/secrets.ts';
import { deriveKey, fingerprintOf, type KeyPurpose, unseal } from './seal.ts';

/** The active keys in base64, current key first. */
export type SecretsKeys = string[];

/**
 * Loads SECRETS_KEY and SECRETS_KEY_PREVIOUS. If SECRETS_KEY is unset, loads the key in DATA_DIR/secrets.key, which is created on
 * first use, and, unless SECRETS_KEY_PREVIOUS is set, the key in DATA_DIR/secrets.key.previous if that file exists.
 * Throws OperatorError if a file cannot be read or written, or contains no key.
 */
export function loadSecretsKeys(settings: Settings): SecretsKeys {
  const { SECRETS_KEY: given, DATA_DIR: directory } = settings;
  const current = given ?? loadOrCreateKey(keyPath(directory), directory);
  const previous = settings.SECRETS_KEY_PREVIOUS ?? (given === undefined ? loadPreviousKey(directory) : undefined);
  return previous === undefined || previous === current ? [current] : [current, previous];
}

/** Like `loadSecretsKeys`, but creates no key. Null: this installation has none yet. */
export function existingSecretsKeys(settings: Settings): SecretsKeys | null {
  const hasKey = settings.SECRETS_KEY !== undefined || existsSync(keyPath(settings.DATA_DIR));
  return hasKey ? loadSecretsKeys(settings) : null;
}

/** Path of the previous generated key. The file exists from `weir keys new` until the previous key is retired. */
export function previousKeyPath(directory: string): string {
  return join(directory, 'secrets.key.previous');
}

/**
 * Replaces the generated key of a DATA_DIR with a new key and keeps the old one as the previous key. Weir must not run on the directory
 * during the call. Throws OperatorError if there is no key yet, a different previous key exists, or a file cannot be read or written.
 */
export function replaceStoredKey(directory: string): void {
  const [path, previousPath] = [keyPath(directory), previousKeyPath(directory)];
  if (!existsSync(path)) throw new OperatorError(`there is no key in ${path} yet`, 'the first start makes one');
  const before = readKey(path, 'set SECRETS_KEY');
  // Equal if an earlier call was killed between the two steps.
  const previous = loadPreviousKey(directory) ?? null;
  if (previous !== null && previous !== before)
    throw new OperatorError(
      `${previousPath} holds a previous key already`,
      `run: ${weirCommand()} keys rotate, then delete that file`,
    );
  try {
    if (previous === null) linkSync(path, previousPath);
    // Before the key is replaced: a power cut must not leave the new key alone.
    flushDirectory(directory);
    const draft = writeDraft(path);
    renameSync(draft, path);
    flushDirectory(directory);
  } catch (error) {
    throw new OperatorError(`${path} cannot be replaced (${(error as Error).message})`);
  }
}

/** Derives the keys of one purpose, current key first. */
export function derivedKeys(keys: SecretsKeys, purpose: KeyPurpose): Buffer[] {
  return keys.map((key) => deriveKey(key, purpose));
}

function loadOrCreateKey(path: string, directory: string): string {
  try {
    createDataDir(directory);
    if (!existsSync(path)) createKey(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST')
      throw new OperatorError(
        `${path} cannot be written (${(error as Error).message})`,
        'set DATA_DIR to a directory of yours',
      );
  }
  return readKey(path, 'set SECRETS_KEY');
}

function loadPreviousKey(directory: string): string | undefined {
  const path = previousKeyPath(directory);
  return existsSync(path) ? readKey(path, 'delete it when it is not needed') : undefined;
}

/** Reads a key file. @param otherwise advice for the error message if the file cannot be repaired. */
function readKey(path: string, otherwise: string): string {
  try {
    const key = readFileSync(path, 'utf8').trim();
    if (Buffer.from(key, 'base64').length === 32) return key;
  } catch (error) {
    throw new OperatorError(`${path} cannot be read (${(error as Error).message})`, `fix its owner, or ${otherwise}`);
  }
  throw new OperatorError(`${path} holds no key of 32 bytes in base64`, `restore it from a backup, or ${otherwise}`);
}

/** Creates the key file. The complete draft is linked to its name: if two processes start at once, one creates it, the other reads it. */
function createKey(path: string): void {
  const draft = writeDraft(path);
  try {
    linkSync(draft, path);
  } finally {
    rmSync(draft);
  }
  flushDirectory(dirname(path));
}

/** Writes a new key to disk under a temporary name. Returns the path. */
function writeDraft(path: string): string {
  const draft = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  writeFileSync(draft, `${randomBytes(32).toString('base64')}\n`, { flag: 'wx', mode: 0o600, flush: true });
  return draft;
}

/** Allowed clock difference between machines that share a database: a session of one must not look too long to another. */
export const CLOCK_DIFFERENCE_MS = 10_000;

/**
 * Decides whether a value signed with SECRETS_KEY_PREVIOUS is still accepted. That key may have leaked, and an attacker could sign with
 * it. It is therefore accepted only for the lifetime of values signed before the replacement. The database stores the replacement time.
 */
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

/**
 * Throws OperatorError if no stored webhook secret can be decrypted: with the wrong key, every webhook would answer 503. If only some
 * cannot be decrypted, Weir starts, and only their webhooks answer 503.
 */
export async function checkKeys(database: Database, settings: Settings, keys: SecretsKeys): Promise<void> {
  const derived = derivedKeys(keys, 'webhook-secrets');
  const { examined, found } = await findDecryptable(
    database,
    (webhookId, sealed) => unseal(sealed, derived, webhookId) !== null,
  );
  if (found || examined === 0) return;
  const given =
    settings.SECRETS_KEY === undefined ? `the key in ${join(settings.DATA_DIR, 'secrets.key')}` : 'SECRETS_KEY';
  throw new OperatorError(
    `${given} opens none of the stored webhook secrets (${examined})`,
    'give the key that they were stored under, as SECRETS_KEY, or as SECRETS_KEY_PREVIOUS beside a new one. ' +
      `If that key is lost, give a webhook a new secret: ${weirCommand()} webhook rotate ID`,
  );
}
