/**
 * Runs all checks, in the order in which an operator should fix problems. Settings, `.env`, Node, the C library and the limits of the kernel
 * are checked here.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { withoutByteOrderMark } from '../../base/files/text.ts';
import { describeUnknown, secretFileNames, unknownSettings } from '../../base/settings/gather.ts';
import { readSettings, type Settings } from '../../base/settings/read.ts';
import { settingTable } from '../../base/settings/table.ts';
import { advice, broken, brokenBy, type Check, type CheckTable, ok, runChecks } from '../../model/check.ts';
import { SettingsError } from '../../model/fault.ts';
import { checkDatabase } from './database.ts';
import { fileChecks, readKey } from './files.ts';
import { originChecks, portChecks, providerChecks, REACH, rateLimitChecks } from './network.ts';

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
    return settings.faults.map((fault) => brokenBy(fault, 'fix it in the environment or in .env'));
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
      found.push(broken(`${path} contains ${secrets.join(', ')} and every user can read it`, `chmod 600 ${path}`));
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

export interface MachineFacts {
  node: string;
  /** Null when the C library is not glibc. */
  glibc: string | null;
  /** Why the uWebSockets.js binary does not load; null when it loads. */
  binaryError: string | null;
  /** Contents of kernel files; null when the file does not exist. */
  migrateReq: string | null;
  somaxconn: string | null;
  limits: string | null;
}

/** The listen backlog that uWebSockets.js requests. */
const BACKLOG = 512;
/** Below this limit a process soon runs out of descriptors: each connection takes one. */
const OPEN_FILES_MIN = 8_192;

/** Reads the facts that machineChecks judges. */
export async function readMachine(): Promise<MachineFacts> {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return {
    node: process.versions.node,
    glibc: report.header?.glibcVersionRuntime ?? null,
    binaryError: await import('uWebSockets.js').then(
      () => null,
      (error: Error) => error.message.split('\n')[0]!,
    ),
    migrateReq: readOrNull('/proc/sys/net/ipv4/tcp_migrate_req'),
    somaxconn: readOrNull('/proc/sys/net/core/somaxconn'),
    // Node has already raised its soft limit to the hard limit, and the serving processes inherit it.
    limits: readOrNull('/proc/self/limits'),
  };
}

export const machineChecks = {
  node({ node, glibc, binaryError }) {
    const here = `Node ${node}, ${glibc === null ? 'no glibc' : `glibc ${glibc}`}`;
    if (binaryError === null) return ok(`${here}: the binary of uWebSockets.js loads`);
    return broken(
      `${here}: the binary of uWebSockets.js does not load: ${binaryError}`,
      'use Node 20.19 or newer with glibc 2.27, Node 22.12 or newer, 24 or 25 with glibc 2.38, or the container image; then npm run setup',
    );
  },
  open_files({ limits }) {
    const soft = /^Max open files\s+(\S+)/m.exec(limits ?? '')?.[1] ?? 'unlimited';
    const finding = `each process may open ${soft} files, including connections`;
    if (soft === 'unlimited' || Number(soft) >= OPEN_FILES_MIN) return ok(finding);
    return advice(finding, 'raise the hard limit: ulimit -Hn 65536, or LimitNOFILE=65536 in a systemd unit');
  },
  somaxconn({ somaxconn }) {
    const backlog = Math.min(Number(somaxconn ?? BACKLOG), BACKLOG);
    const finding = `${backlog} new connections may wait for each process (net.core.somaxconn ${somaxconn?.trim() ?? 'unknown'})`;
    return backlog === BACKLOG ? ok(finding) : advice(finding, 'sysctl -w net.core.somaxconn=4096');
  },
  tcp_migrate_req({ migrateReq }) {
    if (migrateReq === null)
      return advice(
        'this kernel cannot move waiting connections to another process: a rolling restart under load resets a few',
        'use Linux 5.14 or newer, or restart behind a proxy that retries',
      );
    if (migrateReq.trim() !== '0') return ok('connections that wait in a closing listener move to another process');
    return advice(
      'connections that wait in a closing listener are reset: a rolling restart under load resets a few',
      'sysctl -w net.ipv4.tcp_migrate_req=1 (per network namespace; compose.yaml sets it)',
    );
  },
} satisfies CheckTable<MachineFacts>;

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
