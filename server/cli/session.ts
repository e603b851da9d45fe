/** Commands that use the database: with the settings of the server, whether or not it runs. */
import { type Attached, attachDatabase } from '../db/attach.ts';
import { loadSecretsKeys, type SecretsKeys } from '../secrets/keys.ts';
import { readSettings, type Settings } from '../settings/read.ts';
import { type CommandIo, printMessage } from './io.ts';

export interface CommandSession extends Attached {
  settings: Settings;
  keys: SecretsKeys;
}

/** Attaches the database (starts the embedded one when it is not running). The caller detaches. */
export async function openSession(io: CommandIo): Promise<CommandSession> {
  const settings = readSettings(io.environment, io.directory);
  const keys = loadSecretsKeys(settings);
  const attached = await attachDatabase(settings, (line) => printMessage(io, `weir: ${line}\n`), {
    joinSmaller: true,
  });
  return { ...attached, settings, keys };
}

/** Runs the work on the attached database, and detaches in every case. */
export async function withDatabase<T>(io: CommandIo, work: (session: CommandSession) => Promise<T>): Promise<T> {
  const session = await openSession(io);
  try {
    return await work(session);
  } finally {
    await session.detach();
  }
}
