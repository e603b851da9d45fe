/** The keys that SECRETS_KEY gives, or the one that DATA_DIR keeps. */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Settings, SettingsError } from './config.ts';
import { deriveKey, type KeyPurpose } from './core/seal.ts';
import { makeDataDir } from './db/data-dir.ts';

/** Base64 of the keys in force, current first. */
export type SecretsKeys = string[];

/**
 * SECRETS_KEY and SECRETS_KEY_PREVIOUS; without the first, the key in DATA_DIR/secrets.key, made on first use.
 * Throws SettingsError when that file cannot be read or written, or holds no key.
 */
export function loadSecretsKeys(settings: Settings): SecretsKeys {
  const current = settings.SECRETS_KEY ?? keptKey(join(settings.DATA_DIR, 'secrets.key'), settings.DATA_DIR);
  return settings.SECRETS_KEY_PREVIOUS === undefined ? [current] : [current, settings.SECRETS_KEY_PREVIOUS];
}

/** One purpose's keys, current first. */
export function derivedKeys(keys: SecretsKeys, purpose: KeyPurpose): Buffer[] {
  return keys.map((key) => deriveKey(key, purpose));
}

function keptKey(path: string, directory: string): string {
  try {
    makeDataDir(directory);
    if (!existsSync(path)) makeKey(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST')
      throw new SettingsError([
        `${path} cannot be written (${(error as Error).message}); set DATA_DIR to a directory of yours`,
      ]);
  }
  try {
    const key = readFileSync(path, 'utf8').trim();
    if (Buffer.from(key, 'base64').length === 32) return key;
  } catch (error) {
    throw new SettingsError([
      `${path} cannot be read (${(error as Error).message}); mend its owner, or set SECRETS_KEY`,
    ]);
  }
  throw new SettingsError([`${path} holds no key of 32 bytes in base64; restore it from a backup, or set SECRETS_KEY`]);
}

/** Of two that start at once, one makes the key and the other reads all of it: the file gets its name once it is written. */
function makeKey(path: string): void {
  const draft = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  writeFileSync(draft, `${randomBytes(32).toString('base64')}\n`, { flag: 'wx', mode: 0o600 });
  try {
    linkSync(draft, path);
  } finally {
    rmSync(draft);
  }
}
