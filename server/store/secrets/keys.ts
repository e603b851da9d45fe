/** The keys from SECRETS_KEY or DATA_DIR: loading, checking against the database, and the time for which a previous key is accepted. */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { weirCommand } from '../../base/command/name.ts';
import { createDataDir, keyPath } from '../../base/files/data-dir.ts';
import { flushDirectory } from '../../base/files/durable-file.ts';
import type { Settings } from '../../base/settings/read.ts';
import { OperatorError } from '../../model/fault.ts';
import { advisoryLocks, takeLock } from '../advisory-locks.ts';
import type { Database, Queries, Query } from '../connect/pool.ts';
import { sealedSecrets } from '../queries/webhooks/secrets.ts';
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

/** Allowed clock difference between machines that share a database: a machine must not refuse another one's session as too long. */
export const CLOCK_DIFFERENCE_MS = 10_000;

/**
 * Decides whether a value signed with SECRETS_KEY_PREVIOUS, which may have leaked, is still accepted: only for the lifetime of values signed
 * before the replacement.
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
 * cannot be decrypted, or an operator has made the key the current one (`weir keys rotate`, after the loss of a key), Weir starts, and only
 * their webhooks answer 503.
 */
export async function checkKeys(database: Database, settings: Settings, keys: SecretsKeys): Promise<void> {
  const derived = derivedKeys(keys, 'webhook-secrets');
  let examined = 0;
  for await (const { webhookId, sealed } of sealedSecrets(database)) {
    if (unseal(sealed, derived, webhookId) !== null) return;
    examined++;
  }
  if (examined === 0 || (await isRotatedTo(database, fingerprintOf(keys[0]!)))) return;
  const given =
    settings.SECRETS_KEY === undefined ? `the key in ${join(settings.DATA_DIR, 'secrets.key')}` : 'SECRETS_KEY';
  throw new OperatorError(
    `${given} opens none of the stored webhook secrets (${examined})`,
    'give the key that they were stored under, as SECRETS_KEY, or as SECRETS_KEY_PREVIOUS beside a new one. ' +
      `If that key is lost for good, run: ${weirCommand()} keys rotate, start Weir, and give each webhook a new secret: ${weirCommand()} webhook rotate ID`,
  );
}

/**
 * Records the current key. Call in a transaction. A key that was never current replaces all others now. A key that was current before changes
 * nothing unless `again` is set: a machine that still starts with the old key must not change the time of the replacement. Returns the
 * fingerprints of the keys that were in use until now.
 * @param previous fingerprint of SECRETS_KEY_PREVIOUS. Recorded as replaced now when nothing is recorded yet.
 */
export async function recordKeys(
  query: Query,
  current: Buffer,
  previous: Buffer | null,
  { again }: { again: boolean },
): Promise<Buffer[]> {
  await takeLock(query, advisoryLocks.secretsKeys);
  const rows = await query<{ fingerprint: Buffer; used: boolean; replaced: boolean }>({
    text: `select fingerprint, first_used_at is not null as used, replaced_at is not null as replaced from secrets_keys`,
  });
  const known = rows.find(({ fingerprint, used }) => used && fingerprint.equals(current));
  if (known !== undefined && !(known.replaced && again)) return [];
  const before = await query<{ fingerprint: Buffer }>({
    text: 'update secrets_keys set replaced_at = now() where replaced_at is null and fingerprint <> $1 returning fingerprint',
    values: [current],
  });
  await query({
    text: `insert into secrets_keys as k (fingerprint, first_used_at) values ($1, now())
           on conflict (fingerprint) do update set first_used_at = coalesce(k.first_used_at, now()), replaced_at = null`,
    values: [current],
  });
  if (rows.length === 0 && previous !== null)
    await query({
      text: 'insert into secrets_keys (fingerprint, replaced_at) values ($1, now())',
      values: [previous],
    });
  return before.map(({ fingerprint }) => fingerprint);
}

/** Whether Weir was ever started with this key as SECRETS_KEY, or rotated to it. */
export async function wasKeyUsed({ query }: Queries, fingerprint: Buffer): Promise<boolean> {
  const rows = await query({
    text: 'select from secrets_keys where fingerprint = $1 and first_used_at is not null',
    values: [fingerprint],
  });
  return rows.length > 0;
}

/** Seconds since a key was replaced, by the database's clock. Null: still in use; undefined: never in use. */
export async function readReplacedSeconds({ query }: Queries, fingerprint: Buffer): Promise<number | null | undefined> {
  const [row] = await query<{ seconds: number | null }>({
    text: 'select extract(epoch from clock_timestamp() - replaced_at)::float8 as seconds from secrets_keys where fingerprint = $1',
    values: [fingerprint],
  });
  return row?.seconds;
}

/** Whether another machine has replaced this key by a newer one. */
export async function isReplaced(database: Queries, key: string): Promise<boolean> {
  return typeof (await readReplacedSeconds(database, fingerprintOf(key))) === 'number';
}

/**
 * Whether `weir keys rotate` has made this key the current one. A start alone is not enough: before the first webhook, a machine starts with
 * any key, and records it.
 */
async function isRotatedTo(database: Queries, fingerprint: Buffer): Promise<boolean> {
  if ((await readReplacedSeconds(database, fingerprint)) !== null) return false;
  const rows = await database.query({
    text: `
      select from audit_log
      where action collate "C" = 'secrets_key.rotate' and entry -> 'target' ->> 'name' = $1
      limit 1`,
    values: [fingerprint.toString('hex')],
  });
  return rows.length > 0;
}

/** Whether a serving process on any machine is connected now. */
export async function isServerConnected({ query }: Queries): Promise<boolean> {
  const rows = await query({
    text: `select from pg_stat_activity where application_name = 'weir-copy' and datname = current_database() limit 1`,
  });
  return rows.length > 0;
}
