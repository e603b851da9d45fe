/** Commands that use the database: with the settings of the server, whether or not it runs. */

import type { Change } from '../api/change.ts';
import { InputError } from '../api/input.ts';
import { type Attached, attachDatabase } from '../db/attach.ts';
import { loadSecretsKeys, type SecretsKeys } from '../secrets/keys.ts';
import { readSettings, type Settings } from '../settings/read.ts';
import { CommandError, type CommandIo, printMessage } from './io.ts';

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

/** Commands that list the ids of a field. */
const lists: Readonly<Record<string, string>> = { agent_ids: 'weir agent list', webhook_ids: 'weir webhook list' };

/** Returns the value of a successful change. Throws CommandError. @param missing message when the object does not exist */
export function made<T>(change: Change<T>, missing: string): T {
  switch (change.kind) {
    case 'done':
      return change.value;
    case 'invalid': {
      const list = lists[String(change.path[0])];
      throw new CommandError(list === undefined ? change.detail : `${change.detail} See: ${list}`, 2);
    }
    case 'name_taken':
      throw new CommandError('Another active agent has this name. See: weir agent list');
    default:
      throw new CommandError(missing);
  }
}

/** Runs work whose input the API's schemas check. Invalid input counts as wrong usage. */
export async function withInput<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof InputError) throw new CommandError(error.message, 2);
    throw error;
  }
}
