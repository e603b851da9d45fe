/** The keys that SECRETS_KEY gives, or the one that DATA_DIR keeps. */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeDataDir } from '../db/data-dir.ts';
import { type Settings, SettingsError } from '../settings/read.ts';
import { deriveKey, type KeyPurpose } from './seal.ts';

/** Base64 of the keys in force, current first. */
export type SecretsKeys = string[];

/**
 * SECRETS_KEY and SECRETS_KEY_PREVIOUS; without the first, the key in DATA_DIR/secrets.key, made on first use, and the one in
 * DATA_DIR/secrets.key.previous when it is there. Throws SettingsError when a file cannot be read or written, or holds no key.
 */
export function loadSecretsKeys(settings: Settings): SecretsKeys {
  const { SECRETS_KEY: given, DATA_DIR: directory } = settings;
  const current = given ?? keptKey(keyPath(directory), directory);
  const previous = settings.SECRETS_KEY_PREVIOUS ?? (given === undefined ? keptPreviousKey(directory) : undefined);
  return previous === undefined || previous === current ? [current] : [current, previous];
}

/** The generated key of a DATA_DIR. */
export function keyPath(directory: string): string {
  return join(directory, 'secrets.key');
}

/** The generated key before it, between `weir keys new` and the end of its use. */
export function previousKeyPath(directory: string): string {
  return join(directory, 'secrets.key.previous');
}

/**
 * Replaces the generated key of a DATA_DIR by a new one, and keeps it as the previous one. Nobody may serve from the directory meanwhile. Throws
 * SettingsError when there is a previous key already, or a file cannot be written.
 */
export function replaceKeptKey(directory: string): void {
  const [path, previousPath] = [keyPath(directory), previousKeyPath(directory)];
  if (!existsSync(path)) throw new SettingsError([`there is no key in ${path} yet; the first start makes one`]);
  const before = readKey(path, 'set SECRETS_KEY');
  // Equal: this was killed between the two steps.
  const previous = keptPreviousKey(directory) ?? null;
  if (previous !== null && previous !== before)
    throw new SettingsError([
      `${previousPath} holds a previous key already; run: npx weir keys rotate, then delete that file`,
    ]);
  try {
    if (previous === null) linkSync(path, previousPath);
    const draft = writeDraft(path);
    renameSync(draft, path);
  } catch (error) {
    throw new SettingsError([`${path} cannot be replaced (${(error as Error).message})`]);
  }
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
  return readKey(path, 'set SECRETS_KEY');
}

function keptPreviousKey(directory: string): string | undefined {
  const path = previousKeyPath(directory);
  return existsSync(path) ? readKey(path, 'delete it when it is not needed') : undefined;
}

/** @param otherwise what helps when the file cannot be repaired. */
function readKey(path: string, otherwise: string): string {
  try {
    const key = readFileSync(path, 'utf8').trim();
    if (Buffer.from(key, 'base64').length === 32) return key;
  } catch (error) {
    throw new SettingsError([`${path} cannot be read (${(error as Error).message}); fix its owner, or ${otherwise}`]);
  }
  throw new SettingsError([`${path} holds no key of 32 bytes in base64; restore it from a backup, or ${otherwise}`]);
}

/** Of two that start at once, one makes the key and the other reads all of it: the file gets its name once it is written. */
function makeKey(path: string): void {
  const draft = writeDraft(path);
  try {
    linkSync(draft, path);
  } finally {
    rmSync(draft);
  }
}

/** A new key, on the disk, under another name. */
function writeDraft(path: string): string {
  const draft = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  writeFileSync(draft, `${randomBytes(32).toString('base64')}\n`, { flag: 'wx', mode: 0o600, flush: true });
  return draft;
}
