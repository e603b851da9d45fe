/** Context of commands that use the database. They read the same settings as the server, whether or not the server runs. */

import { type Attached, attachDatabase } from '../db/attach.ts';
import { loadSecretsKeys, type SecretsKeys } from '../secrets/keys.ts';
import { readSettings, type Settings } from '../settings/read.ts';
import { type CommandIo, tellText } from './io.ts';

export interface CommandSession extends Attached {
  settings: Settings;
  keys: SecretsKeys;
}

/** Attaches the database (starts the embedded one when it is not running), runs the work, and detaches in every case. */
export async function withDatabase<T>(io: CommandIo, work: (session: CommandSession) => Promise<T>): Promise<T> {
  const settings = readSettings(io.environment, io.directory);
  const keys = loadSecretsKeys(settings);
  const attached = await attachDatabase(settings, (line) => tellText(io, `weir: ${line}\n`), {
    joinSmaller: true,
  });
  try {
    return await work({ ...attached, settings, keys });
  } finally {
    await attached.detach();
  }
}
