/**
 * Collects the values of the settings: from `.env`, from the environment, and from the files of secrets. They are not validated here. Finds
 * unknown names that look like settings: with a typo, the default would silently apply.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { type Fault, SettingsError } from '../../model/fault.ts';
import { withoutByteOrderMark } from '../files/text.ts';
import { settingTable } from './table.ts';
import type { Setting } from './values.ts';

/** Unvalidated input: non-empty values by name, and the base directory of relative paths. */
export interface GivenSettings {
  values: Record<string, string | undefined>;
  directory: string;
}

export interface Gathered {
  given: GivenSettings;
  /** Names of the settings whose values come from `.env` or from a file of a secret: they may differ when they are read again. */
  fromFile: string[];
  /** Names of variables that are not meant as settings. */
  ignored: string[];
}

/**
 * Collects values from `.env` in `directory`, the environment, which takes precedence, and the files of secrets. Throws SettingsError if a
 * file is unreadable.
 */
export function gather(environment: NodeJS.ProcessEnv, directory: string): Gathered {
  const ignored = Object.keys(settingTable).filter((name) => isServiceLink(name, environment[name]));
  const own = withoutEmpty(Object.fromEntries(Object.entries(environment).filter(([name]) => !ignored.includes(name))));
  const file = readEnvFile(resolve(directory, '.env'));
  const fromFile = [
    ...Object.keys(file).filter((name) => name in settingTable && !(name in own)),
    ...secretFileNames.filter((name) => name in own || name in file),
  ];
  return { given: { values: withSecretFiles({ ...file, ...own }, directory), directory }, fromFile, ignored };
}

/** Alternative names of secret settings, `NAME_FILE`: the value is the path of a file that contains the secret. */
export const secretFileNames: readonly string[] = (Object.entries(settingTable) as [string, Setting][]).flatMap(
  ([name, { secret }]) => (secret ? [`${name}_FILE`] : []),
);

/** Replaces each NAME_FILE by its setting with the content of the file. Throws one SettingsError that lists all unusable ones. */
function withSecretFiles(given: GivenSettings['values'], directory: string): GivenSettings['values'] {
  const values = { ...given };
  const faults: Fault[] = [];
  for (const fileName of secretFileNames) {
    const path = values[fileName];
    if (path === undefined) continue;
    delete values[fileName];
    const name = fileName.slice(0, -'_FILE'.length);
    if (values[name] !== undefined) faults.push({ finding: `${name} and ${fileName} are both set`, fix: 'set one' });
    try {
      values[name] = withoutByteOrderMark(readFileSync(resolve(directory, path), 'utf8')).replace(/\r?\n$/, '');
      if (values[name] === '')
        faults.push({ finding: `${fileName} names an empty file`, fix: 'write the secret into it' });
    } catch (error) {
      faults.push({
        finding: `${fileName} cannot be read: ${(error as Error).message}`,
        fix: 'name a file that the user of Weir may read',
      });
    }
  }
  if (faults.length > 0) throw new SettingsError(faults);
  return values;
}

/** Kubernetes sets such variables in every pod: for a Service named `postgres`, POSTGRES_PORT=tcp://10.0.0.1:5432. */
function isServiceLink(name: string, value: string | undefined): boolean {
  return name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(value ?? '');
}

function readEnvFile(path: string): Record<string, string | undefined> {
  try {
    return withoutEmpty(parseEnv(withoutByteOrderMark(readFileSync(path, 'utf8'))));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new SettingsError([{ finding: `${path} cannot be read: ${(error as Error).message}`, fix: null }]);
  }
}

function withoutEmpty(values: Record<string, string | undefined>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== ''));
}

export interface UnknownSetting {
  name: string;
  /** The setting whose name differs by one character; null: none. */
  meant: string | null;
}

/** Variables of commands, of the programs that commands run, and of tests. */
const OTHER_NAMES =
  /^WEIR_(SECRET|TOKEN|URL|CREDENTIAL|PRIVATE_KEY|ATTEMPT|CONTENT_TYPE|(DELIVERY|EVENT|REQUEST|WEBHOOK)_ID|EVENT_TYPE|HEADERS|RECEIVED_AT|WEBHOOK_NAME|TEST_\w+)$/;
/** What Kubernetes sets for a Service that is named weir. */
const SERVICE_LINK = /^WEIR_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;
/** Shorter names are not compared: other programs use names that are one character away from HOST or PORT. */
const CHARACTERS_MIN = 6;

/** The variables, of any kind, that begin with WEIR_ or are one character away from a setting. */
export function unknownSettings(variables: Iterable<string>): UnknownSetting[] {
  const settings = Object.keys(settingTable);
  return [...variables].flatMap((name): UnknownSetting[] => {
    if (Object.hasOwn(settingTable, name) || OTHER_NAMES.test(name) || SERVICE_LINK.test(name)) return [];
    const isOwn = name.startsWith('WEIR_');
    const given = isOwn ? name.slice('WEIR_'.length) : name;
    const meant = settings.find((setting) => (isOwn && setting === given) || isNear(given, setting)) ?? null;
    return isOwn || meant !== null ? [{ name, meant }] : [];
  });
}

/** `NAME`, or `NAME (SETTING?)` when a setting has a similar name. */
export function describeUnknown({ name, meant }: UnknownSetting): string {
  return meant === null ? name : `${name} (${meant}?)`;
}

/** Whether the names differ by one character that is inserted, left out, changed, or exchanged with the next one. */
function isNear(given: string, setting: string): boolean {
  if (Math.min(given.length, setting.length) < CHARACTERS_MIN || given === setting) return false;
  const [short, long] = given.length <= setting.length ? [given, setting] : [setting, given];
  if (long.length - short.length > 1) return false;
  let at = 0;
  while (at < short.length && short[at] === long[at]) at++;
  if (long.length > short.length) return short.slice(at) === long.slice(at + 1);
  const isExchanged = short[at] === long[at + 1] && short[at + 1] === long[at];
  return short.slice(at + 1) === long.slice(at + 1) || (isExchanged && short.slice(at + 2) === long.slice(at + 2));
}
