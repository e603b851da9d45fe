/** Reads the settings: parses what gather.ts collects by the table in table.ts, then checks rules across settings. */
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import { type Fault, SettingsError } from '../../model/fault.ts';
import { passwordProblem } from '../../model/passwords/rules.ts';
import { keyPath } from '../files/data-dir.ts';
import { formatConninfo } from '../net/conninfo.ts';
import { isSafeUrl, localUrl } from '../net/loopback.ts';
import { type Gathered, type GivenSettings, gather, type UnknownSetting, unknownSettings } from './gather.ts';
import { settingTable } from './table.ts';
import type { Setting } from './values.ts';

type Table = typeof settingTable;
type Name = keyof Table;
type Parsed = {
  [K in Name]: Table[K] extends { fallback: string }
    ? z.output<Table[K]['schema']>
    : z.output<Table[K]['schema']> | undefined;
};

/** The database: the embedded server, or the server in a connection string. */
type DatabaseTarget = { kind: 'embedded' } | { kind: 'server'; conninfo: string };

/** All settings by name, including computed defaults. Plain data that can be sent between processes. */
export type Settings = Parsed & {
  PUBLIC_URL: string;
  WORKERS: number;
  DATA_DIR: string;
  FRONTEND_PUBLIC_API_URL: string;
  FRONTEND_PUBLIC_AUTH_MODE: 'local' | 'hosted';
  database: DatabaseTarget;
  /** Redis nodes of the shared counters; empty when the backend is memory. */
  sharedStoreUrls: string[];
  /** Values of the settings with a computed default when they are unset. */
  computedDefaults: Partial<Record<Name, string | number>>;
};

/** The settings and the input they came from. A process of another build parses the input itself. */
export interface LoadedSettings extends Gathered {
  settings: Settings;
  unknown: UnknownSetting[];
}

/**
 * Reads the settings from the environment and `.env` in `directory`. The environment takes precedence. An empty value counts as
 * unset. Throws one SettingsError that lists all invalid settings.
 */
export function readSettings(environment: NodeJS.ProcessEnv, directory: string): Settings {
  return loadSettings(environment, directory).settings;
}

/** Like `readSettings`, but also returns the input. */
export function loadSettings(environment: NodeJS.ProcessEnv, directory: string): LoadedSettings {
  const gathered = gather(environment, directory);
  const unknown = unknownSettings(Object.keys(gathered.given.values));
  return { ...gathered, settings: parseSettings(gathered.given), unknown };
}

/** Validates the input. Throws one SettingsError that lists all invalid settings. */
export function parseSettings({ values: given, directory }: GivenSettings): Settings {
  const faults: Fault[] = [];
  const parsed: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(settingTable) as [Name, Setting][]) {
    const value = given[name] ?? setting.fallback;
    if (value === undefined) continue;
    const result = setting.schema.safeParse(value);
    if (result.success) parsed[name] = result.data;
    else
      faults.push({
        finding: `${name} is ${setting.secret ? 'not usable' : JSON.stringify(value)}`,
        fix: `allowed: ${setting.allowed}`,
      });
  }
  if (faults.length > 0) throw new SettingsError(faults);
  const settings = complete(parsed as Parsed, directory);
  const refusals = refuse(settings, given);
  if (refusals.length > 0) throw new SettingsError(refusals);
  return settings;
}

/** Returns the names of the settings that differ. */
export function changedSettings(one: Settings, other: Settings): string[] {
  return (Object.keys(settingTable) as Name[]).filter((name) => !isDeepStrictEqual(one[name], other[name]));
}

const ROOT_DATA_DIR = '/var/lib/weir';

function complete(parsed: Parsed, directory: string): Settings {
  const root = process.getuid?.() === 0;
  const ownDataDir = resolve(directory, 'data');
  const usualDataDir = root ? ROOT_DATA_DIR : ownDataDir;
  const dataDir = resolve(directory, parsed.DATA_DIR ?? usualDataDir);
  const ownUrl = localUrl(parsed.HOST, parsed.PORT);
  const publicUrl = parsed.PUBLIC_URL ?? ownUrl;
  return {
    ...parsed,
    PUBLIC_URL: publicUrl,
    WORKERS: parsed.WORKERS ?? availableParallelism(),
    DATA_DIR: dataDir,
    ...(parsed.INGEST_SPOOL_DIR === undefined ? {} : { INGEST_SPOOL_DIR: resolve(directory, parsed.INGEST_SPOOL_DIR) }),
    FRONTEND_PUBLIC_API_URL: parsed.FRONTEND_PUBLIC_API_URL ?? publicUrl,
    FRONTEND_PUBLIC_AUTH_MODE: parsed.FRONTEND_PUBLIC_AUTH_MODE ?? parsed.AUTH_MODE,
    database: chooseDatabase(parsed),
    sharedStoreUrls:
      parsed.RATE_LIMIT_BACKEND === 'shared' ? (parsed.RATE_LIMIT_SHARED_URL ?? parsed.RQ_SHARED_URL ?? []) : [],
    computedDefaults: {
      PUBLIC_URL: ownUrl,
      WORKERS: availableParallelism(),
      // A process that serves as another user gets the directory of the primary, so the default of either user is a default.
      DATA_DIR: [ROOT_DATA_DIR, ownDataDir].includes(dataDir) ? dataDir : usualDataDir,
      FRONTEND_PUBLIC_API_URL: publicUrl,
      FRONTEND_PUBLIC_AUTH_MODE: parsed.AUTH_MODE,
    },
  };
}

/** Checks the rules that involve more than one setting. */
function refuse(settings: Settings, given: Record<string, string | undefined>): Fault[] {
  const faults: Fault[] = [];
  const refuseIf = (condition: boolean, finding: string, fix: string) => {
    if (condition) faults.push({ finding, fix });
  };
  const payloadMax = settings.WEBHOOK_MAX_PAYLOAD_BYTES;
  refuseIf(
    settings.FRONTEND_PUBLIC_AUTH_MODE !== settings.AUTH_MODE,
    `FRONTEND_PUBLIC_AUTH_MODE is ${settings.FRONTEND_PUBLIC_AUTH_MODE} but AUTH_MODE is ${settings.AUTH_MODE}`,
    'set both to the same mode',
  );
  refuseIf(
    settings.RATE_LIMIT_BACKEND === 'shared' && settings.sharedStoreUrls.length === 0,
    'RATE_LIMIT_BACKEND is shared but RATE_LIMIT_SHARED_URL and RQ_SHARED_URL are both unset',
    'set one, or use memory',
  );
  refuseIf(
    settings.PORT === settings.METRICS_PORT && listenTogether(settings.HOST, settings.METRICS_HOST),
    `PORT and METRICS_PORT are both ${settings.PORT}`,
    'set METRICS_PORT to another port',
  );
  for (const name of ['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET'] as const)
    refuseIf(
      settings.AUTH_MODE === 'hosted' && settings[name] === undefined,
      `${name} is unset but AUTH_MODE is hosted`,
      'set it, or use local',
    );
  refuseIf(
    settings.OAUTH_ENABLED && !isSafeUrl(new URL(settings.PUBLIC_URL)),
    'OAUTH_ENABLED is true but PUBLIC_URL is an http address that other machines reach',
    'set PUBLIC_URL to the https address of the proxy',
  );
  refuseIf(
    settings.database.kind === 'server' && settings.SECRETS_KEY === undefined,
    'SECRETS_KEY is unset but the database is not the embedded one',
    existsSync(keyPath(settings.DATA_DIR))
      ? `to keep the secrets of the embedded one and to restore its backups, set it to the key in ${keyPath(settings.DATA_DIR)}; for a new installation, generate one with: openssl rand -base64 32`
      : 'generate one with: openssl rand -base64 32',
  );
  if (given.DATABASE_URL === undefined && settings.database.kind === 'server') faults.push(...weakPassword(settings));
  faults.push(...badAdministrator(settings));
  for (const name of ['BODY_BYTES_HELD_MAX', 'CLIENT_BODY_BYTES_HELD_MAX'] as const)
    refuseIf(
      settings[name] < payloadMax,
      `${name} is less than WEBHOOK_MAX_PAYLOAD_BYTES`,
      'raise it: a body at the limit could never be held',
    );
  return faults;
}

function weakPassword({ POSTGRES_PASSWORD: password, POSTGRES_USER: user, POSTGRES_DB: db }: Settings): Fault[] {
  const fault = (weakness: string) => [
    { finding: `POSTGRES_PASSWORD ${weakness}`, fix: 'choose a strong one: openssl rand -hex 24' },
  ];
  if (password === undefined) return fault('is unset but the database is not the embedded one');
  if (password.length < 12) return fault('has fewer than 12 characters');
  if (password === user || password === db) return fault('equals POSTGRES_USER or POSTGRES_DB');
  if (/postgres|password/i.test(password)) return fault('contains the word postgres or password');
  return [];
}

function badAdministrator({ ADMIN_EMAIL: email, ADMIN_PASSWORD: password }: Settings): Fault[] {
  if (email === undefined && password === undefined) return [];
  const fix = 'set both, or set neither and use the setup URL that the first start prints';
  if (email === undefined) return [{ finding: 'ADMIN_PASSWORD is set but ADMIN_EMAIL is not', fix }];
  if (password === undefined) return [{ finding: 'ADMIN_EMAIL is set but ADMIN_PASSWORD is not', fix }];
  const problem = passwordProblem(password, email);
  return problem === null ? [] : [{ finding: `ADMIN_PASSWORD is not usable. ${problem}`, fix: null }];
}

function chooseDatabase(parsed: Parsed): DatabaseTarget {
  if (parsed.DATABASE_URL !== undefined) return { kind: 'server', conninfo: parsed.DATABASE_URL };
  const parts = {
    host: parsed.POSTGRES_HOST,
    dbname: parsed.POSTGRES_DB,
    user: parsed.POSTGRES_USER,
    port: parsed.POSTGRES_PORT,
    password: parsed.POSTGRES_PASSWORD,
  };
  if (Object.values(parts).every((part) => part === undefined)) return { kind: 'embedded' };
  const words = Object.entries({ ...parts, host: parts.host ?? 'localhost' }).flatMap(
    ([name, value]): [string, string][] => (value === undefined ? [] : [[name, String(value)]]),
  );
  return { kind: 'server', conninfo: formatConninfo(words) };
}

/** Whether one port cannot be used on both addresses: they are equal, or one is a wildcard. */
function listenTogether(one: string, other: string): boolean {
  return one === other || [one, other].some((host) => host === '0.0.0.0' || host === '::');
}
