/** Runs all checks, in the order in which an operator should fix problems. Settings and `.env` are checked here. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { withoutByteOrderMark } from '../../base/files/text.ts';
import { secretFileNames } from '../../base/settings/gather.ts';
import { readSettings, type Settings } from '../../base/settings/read.ts';
import { settingTable } from '../../base/settings/table.ts';
import { describeUnknown, unknownSettings } from '../../base/settings/unknown.ts';
import { advice, type Check, type CheckTable, ok, problem, problemOf, runChecks } from '../../model/check.ts';
import { SettingsError } from '../../model/fault.ts';
import { checkDatabase } from './database.ts';
import { fileChecks, readKey } from './files.ts';
import { machineChecks, readMachine } from './machine.ts';
import { originChecks, portChecks, providerChecks, REACH } from './network.ts';
import { rateLimitChecks } from './rate-limit.ts';

/**
 * Checks everything that Weir needs to work; changes nothing. With invalid settings, only the settings and the machine are checked.
 * @param log progress of the embedded server, for people.
 */
export async function examine(
  environment: NodeJS.ProcessEnv,
  directory: string,
  log: (line: string) => void,
): Promise<Check[]> {
  const settings = settingsOrError(environment, directory);
  const before = await runChecks(settingChecks, { environment, directory, settings });
  const machine = await runChecks(machineChecks, await readMachine());
  if (settings instanceof SettingsError) return [...before, ...machine];
  const context = { settings, nowMs: Date.now };
  const [files, ports, ...network] = await Promise.all([
    runChecks(fileChecks, context),
    runChecks(portChecks, context),
    runChecks(rateLimitChecks, context),
    runChecks(providerChecks, context),
    runChecks(originChecks, context),
  ]);
  const usable = files.every(({ name, state }) => name !== 'data_dir' || state === 'ok');
  const running = ports.some(({ name }) => name === REACH);
  const database =
    usable || settings.database.kind === 'server'
      ? await checkDatabase({ ...context, running, keys: (await readKey(settings)).keys }, log)
      : [];
  return [...before, ...files, ...database, ...network.flat(), ...ports, ...machine];
}

/** Reads the settings as the server does. */
export function settingsOrError(environment: NodeJS.ProcessEnv, directory: string): Settings | SettingsError {
  try {
    return readSettings(environment, directory);
  } catch (error) {
    if (error instanceof SettingsError) return error;
    throw error;
  }
}

/** Names in `.env` that compose and `weir send` read. */
const ofOthers = /^(COMPOSE_|DOCKER_|WEIR_SECRET$)/;
const SPELLING = 'check the spelling; .env.example lists every setting';

interface Given {
  environment: NodeJS.ProcessEnv;
  directory: string;
  settings: Settings | SettingsError;
}

export const settingChecks = {
  settings({ settings }) {
    if (!(settings instanceof SettingsError)) return ok('every setting is valid');
    return settings.faults.map((fault) => problemOf(fault, 'fix it in the environment or in .env'));
  },
  /** Unknown names, and secrets that other users can read. The check of the settings reports a file that cannot be read. */
  env_file({ directory }) {
    const path = join(directory, '.env');
    let given: Record<string, string | undefined>;
    try {
      given = parseEnv(withoutByteOrderMark(readFileSync(path, 'utf8')));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      return code === 'ENOENT' ? ok(`there is no ${path}; settings come from the environment`) : null;
    }
    const table: Readonly<Record<string, { secret?: true; allowed: string }>> = settingTable;
    const isSecret = (name: string) => given[name] && Object.hasOwn(table, name) && table[name]!.secret;
    const secrets = Object.keys(given).filter(isSecret);
    const isKnown = (name: string) =>
      Object.hasOwn(table, name) || secretFileNames.includes(name) || ofOthers.test(name);
    const unknown = Object.keys(given).filter((name) => !isKnown(name));
    const found = [];
    if (secrets.length > 0 && (statSync(path).mode & 0o004) !== 0)
      found.push(problem(`${path} contains ${secrets.join(', ')} and every user can read it`, `chmod 600 ${path}`));
    if (unknown.length > 0) found.push(advice(`${path} contains unknown settings: ${unknown.join(', ')}`, SPELLING));
    return found.length > 0 ? found : ok(`${path} is readable`);
  },
  /** Variables of the environment that look like settings and are not. */
  environment({ environment }) {
    const unknown = unknownSettings(Object.keys(environment)).map(describeUnknown);
    if (unknown.length === 0) return null;
    return advice(`the environment has unknown settings: ${unknown.join(', ')}`, SPELLING);
  },
} satisfies CheckTable<Given>;
