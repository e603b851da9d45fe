/** Runs all checks, in the order in which an operator should fix problems. */
import type { Check } from '../../model/check.ts';
import { checkDatabase } from './database.ts';
import { checkDataDir, checkKey } from './files.ts';
import { checkMachine, readMachine } from './machine.ts';
import { checkIdentityProvider, checkOrigins, checkProxies } from './origins.ts';
import { checkPorts } from './ports.ts';
import { checkRateLimit } from './rate-limit.ts';
import { checkEnvFile, checkEnvironment, checkSettings } from './settings.ts';
import { checkSpool } from './spool.ts';
import { checkServingUser } from './user.ts';

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
