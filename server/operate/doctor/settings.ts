/** Checks of the settings and of the `.env` file. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { withoutByteOrderMark } from '../../base/files/text.ts';
import { readSettings, type Settings } from '../../base/settings/read.ts';
import { settingTable } from '../../base/settings/table.ts';
import { describeUnknown, unknownSettings } from '../../base/settings/unknown.ts';
import { advice, type Check, ok, problem, problemOf } from '../../model/check.ts';
import { SettingsError } from '../../model/fault.ts';

/** Names in `.env` that compose and `weir send` read. */
const ofOthers = /^(COMPOSE_|DOCKER_|WEIR_SECRET$)/;

/** Reads the settings as the server does. `settings` is null when some are invalid; each of those has its own check. */
export function checkSettings(
  environment: NodeJS.ProcessEnv,
  directory: string,
): { checks: Check[]; settings: Settings | null } {
  try {
    return {
      checks: [ok('settings', 'every setting is valid')],
      settings: readSettings(environment, directory),
    };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    const fix = 'fix it in the environment or in .env';
    return { checks: error.faults.map((fault) => problemOf('settings', fault, fix)), settings: null };
  }
}

/** Names the variables of the environment that look like settings and are not. */
export function checkEnvironment(environment: NodeJS.ProcessEnv): Check[] {
  const unknown = unknownSettings(Object.keys(environment)).map(describeUnknown);
  if (unknown.length === 0) return [];
  const fix = 'check the spelling; .env.example lists every setting';
  return [advice('environment', `the environment has unknown settings: ${unknown.join(', ')}`, fix)];
}

/** Checks `.env` for unknown names, and for secrets that other users can read. checkSettings reports a file that cannot be read. */
export function checkEnvFile(directory: string): Check[] {
  const path = join(directory, '.env');
  let given: Record<string, string | undefined>;
  try {
    given = parseEnv(withoutByteOrderMark(readFileSync(path, 'utf8')));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? [ok('env_file', `there is no ${path}; settings come from the environment`)] : [];
  }
  const checks: Check[] = [];
  const table: Readonly<Record<string, { secret?: true; allowed: string }>> = settingTable;
  const secrets = Object.keys(given).filter((name) => given[name] && Object.hasOwn(table, name) && table[name]!.secret);
  if (secrets.length > 0 && (statSync(path).mode & 0o004) !== 0)
    checks.push(
      problem('env_file', `${path} contains ${secrets.join(', ')} and every user can read it`, `chmod 600 ${path}`),
    );
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(table, name) && !ofOthers.test(name));
  if (unknown.length > 0)
    checks.push(
      advice(
        'env_file',
        `${path} contains unknown settings: ${unknown.join(', ')}`,
        'check the spelling; .env.example lists every setting',
      ),
    );
  return checks.length > 0 ? checks : [ok('env_file', `${path} is readable`)];
}
