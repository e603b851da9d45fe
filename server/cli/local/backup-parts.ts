/** What the commands `backup` and `restore` share: the database as it is, the keys of backups, and the end by a signal. */
import { type CommandIo, printLine } from '../../base/command/io.ts';
import { keyPath } from '../../base/files/data-dir.ts';
import type { Settings } from '../../base/settings/read.ts';
import { type Database, openDatabase } from '../../store/connect/pool.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import { openUnmigrated, unusable } from '../../store/open.ts';
import { derivedKeys, existingSecretsKeys } from '../../store/secrets/keys.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Null: there is no key, and none is created: it would be another one than that of the installation. */
export function backupKeys(settings: Settings): Buffer[] | null {
  const keys = existingSecretsKeys(settings);
  return keys && derivedKeys(keys, 'backups');
}

/** What a backup lacks, for the operator. */
export function keyNote({ SECRETS_KEY, DATA_DIR }: Settings): string {
  const key = SECRETS_KEY === undefined ? `The key ${keyPath(DATA_DIR)} (SECRETS_KEY)` : 'SECRETS_KEY';
  return `${key} is not in the backup, and the stored webhook secrets cannot be decrypted without it: keep it in another place.`;
}

/** Runs the work with the configured database as it is: a backup before an upgrade must not migrate. */
export async function withConfigured<T>(
  io: CommandIo,
  settings: Settings,
  work: (attached: { conninfo: string; database: Database }) => Promise<T>,
): Promise<T> {
  const log = (line: string) => printLine(io, `weir: ${line}`);
  const attached = await openUnmigrated(settings, log, { joinSmaller: true });
  try {
    return await work(attached).catch((error) => explain(attached.conninfo, error, settings));
  } finally {
    await attached.detach();
  }
}

/** Runs the work with the database of another server. */
export async function withServer<T>(conninfo: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = openDatabase(conninfo, { connectionsMax: 2, applicationName: 'weir-restore' });
  try {
    return await work(database).catch((error) => explain(conninfo, error));
  } finally {
    await database.close();
  }
}

function explain(conninfo: string, error: unknown, settings?: Settings): never {
  throw error instanceof DatabaseUnavailable ? unusable(conninfo, error, settings) : error;
}

/** A signal ends the programs that the work has started; the work then cleans up and rejects. */
export async function untilSignal<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  for (const name of SIGNALS) process.on(name, onSignal);
  try {
    return await work(stop.signal);
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
  }
}
