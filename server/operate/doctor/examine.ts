/** Runs all checks, in the order in which an operator should fix problems. */

import type { Settings } from '../../base/settings/read.ts';
import { advice, type Check, ok, problemOf } from '../../model/check.ts';
import type { OperatorError } from '../../model/fault.ts';
import { findServingUser, type ServingUser, servingUserName } from '../primary/serving-user.ts';
import { checkDatabase } from './database.ts';
import { checkDataDir, checkKey } from './files.ts';
import { checkMachine, readMachine } from './machine.ts';
import { checkIdentityProvider, checkOrigins, checkProxies } from './origins.ts';
import { checkPorts } from './ports.ts';
import { checkRateLimit } from './rate-limit.ts';
import { checkEnvFile, checkEnvironment, checkSettings } from './settings.ts';
import { checkSpool } from './spool.ts';

/**
 * Checks everything that Weir needs to work; changes nothing. With invalid settings, only the settings and the machine are checked.
 * @param log progress of the embedded server, for people.
 */
export async function examine(
  environment: NodeJS.ProcessEnv,
  directory: string,
  log: (line: string) => void,
): Promise<Check[]> {
  const { checks, settings } = checkSettings(environment, directory);
  const before = [...checks, ...checkEnvFile(directory), ...checkEnvironment(environment)];
  const machine = checkMachine(await readMachine());
  if (settings === null) return [...before, ...machine];
  const [user, dataDir, spool, key, ports, rateLimit, identityProvider] = await Promise.all([
    checkServingUser(settings),
    checkDataDir(settings),
    checkSpool(settings),
    checkKey(settings),
    checkPorts(settings),
    checkRateLimit(settings),
    checkIdentityProvider(settings),
  ]);
  const { running } = ports;
  const usable = dataDir.every((check) => check.name !== 'data_dir' || check.state === 'ok');
  const checksDatabase = usable || settings.database.kind === 'server';
  const circumstances = { settings, keys: key.keys, running, nowMs: Date.now, log };
  return [
    ...before,
    user,
    ...dataDir,
    ...spool,
    key.check,
    ...(checksDatabase ? await checkDatabase(circumstances) : []),
    rateLimit,
    identityProvider,
    ...checkOrigins(settings),
    checkProxies(settings),
    ...ports.checks,
    ...machine,
  ];
}

/** Names the user of the serving processes when this user starts Weir. */
async function checkServingUser(settings: Pick<Settings, 'SERVE_AS_ROOT'>): Promise<Check> {
  const name = 'serving_user';
  let user: ServingUser | null;
  try {
    user = await findServingUser(settings);
  } catch (error) {
    return problemOf(name, error as OperatorError, 'start Weir as another user');
  }
  if (user === null && process.getuid?.() === 0)
    return advice(
      name,
      'SERVE_AS_ROOT is true: a fault in a process that serves senders is a fault of root',
      'remove SERVE_AS_ROOT, and restart Weir',
    );
  return ok(name, `Weir serves as the user ${servingUserName(user)}`);
}
