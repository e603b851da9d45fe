/**
 * The user of the serving processes. Started by root, it is the system user `weir`, unless SERVE_AS_ROOT is true. The primary stays root: it
 * owns DATA_DIR with the keys and the locks, and starts the embedded Postgres as its own user.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Settings } from '../../base/settings/read.ts';
import { OperatorError } from '../../model/fault.ts';
import { addUserCommand, lookUpUser, SYSTEM_USER } from '../../store/embedded/account.ts';
import { noSecrets } from './forks.ts';
import { closedAbove } from './release.ts';

export interface ServingUser {
  uid: number;
  gid: number;
  /** Changes to the environment. */
  env: NodeJS.ProcessEnv;
}

export interface TrialOrder {
  conninfo: string;
  host: string;
  port: number;
}

export type TrialResult = { failed: null } | { failed: 'database' | 'file' | 'port'; reason: string };

/** The user of the serving processes cannot serve, which ends the start: Weir serves as root only with SERVE_AS_ROOT. */
export class ServingUserError extends OperatorError {
  /** The database refused the user. It may refuse everyone. */
  byDatabase = false;
}

/** The user of the serving processes; null: that of the primary. Throws ServingUserError when it does not exist. */
export async function findServingUser({ SERVE_AS_ROOT }: Pick<Settings, 'SERVE_AS_ROOT'>): Promise<ServingUser | null> {
  if (process.getuid!() !== 0 || SERVE_AS_ROOT) return null;
  const account = await lookUpUser(SYSTEM_USER);
  if (account === null)
    throw new ServingUserError(
      `Started by root, Weir serves as the user ${SYSTEM_USER}, which does not exist`,
      `run: ${addUserCommand.join(' ')}`,
    );
  // Without HOME, libpq uses the user's home directory; libpq fails on a HOME that it may not enter.
  const env = { HOME: undefined, USER: SYSTEM_USER, LOGNAME: SYSTEM_USER };
  return { uid: account.uid, gid: account.gid, env };
}

/** Name of the user, for people. @param user null: that of this program */
export function servingUserName(user: ServingUser | null): string {
  try {
    return user === null ? userInfo().username : SYSTEM_USER;
  } catch {
    // In a container started with a number, which may have no name.
    return `number ${process.getuid!()}`;
  }
}

/**
 * Runs the trial as the user: it must load the addons, connect to the database, read the certificates and bind the port. It has no time
 * limit: on a busy machine only its start takes long, and its connection attempt has a limit of its own. Rejects with ServingUserError.
 * @param trialFile compiled trial.ts of the release that will be served
 * @param conninfo the database. While it is away, the trial says nothing about it.
 * @param stopping ends the trial, which then has no result.
 */
export async function tryServingUser(
  trialFile: string,
  user: ServingUser,
  settings: Settings,
  conninfo: string,
  stopping?: AbortSignal,
): Promise<void> {
  const result = await runTrial(trialFile, user, { conninfo, host: settings.HOST, port: settings.PORT }, stopping);
  if (result.failed === null || stopping?.aborted === true) return;
  const fix = `${fixFor(result.failed, settings)} (SERVE_AS_ROOT=true makes the processes serve as root instead)`;
  const error = new ServingUserError(describe(result), fix);
  error.byDatabase = result.failed === 'database';
  throw error;
}

type Failure = Exclude<TrialResult, { failed: null }> | { failed: 'become' | 'node' | 'load'; reason: string };

function describe({ failed, reason }: Failure): string {
  if (failed === 'become') return `Weir cannot switch from root to the user ${SYSTEM_USER}: ${reason}`;
  if (failed === 'node') return `the user ${SYSTEM_USER} cannot run ${process.execPath}: ${reason}`;
  if (failed === 'load') return `the user ${SYSTEM_USER} cannot run Weir: ${reason}`;
  if (failed === 'database') return `the user ${SYSTEM_USER} cannot connect to the database: ${reason}`;
  if (failed === 'file') return `the user ${SYSTEM_USER} cannot read ${reason}`;
  return `the user ${SYSTEM_USER} cannot listen: ${reason}`;
}

function fixFor(failed: Failure['failed'], { database, DATA_DIR }: Settings): string {
  if (failed === 'become') return `start Weir as the user ${SYSTEM_USER}`;
  if (failed === 'node')
    return `run: chmod go+x ${[...closedAbove(process.execPath), process.execPath].join(' ')}; or install Node in /usr/local`;
  if (failed === 'load')
    return `move the installation to a directory that every user can read, such as /srv/weir, and run there: npm run setup; DATA_DIR ${DATA_DIR} must not be mounted noexec`;
  if (failed === 'database')
    return database.kind === 'embedded'
      ? `stop Weir, then run: chown -R ${SYSTEM_USER}: ${join(DATA_DIR, 'postgres')}`
      : `let the user ${SYSTEM_USER} read the files that DATABASE_URL names, and connect`;
  if (failed === 'file') return `let the user ${SYSTEM_USER} read it`;
  return 'choose a PORT above 1023 and put a proxy in front, or run Weir as a systemd service with CAP_NET_BIND_SERVICE (see views/docs/installing.md#as-a-systemd-service)';
}

/** A trial that a signal ended says nothing of the user, so it is repeated. */
const TRIALS_MAX = 3;

async function runTrial(
  trialFile: string,
  user: ServingUser,
  order: TrialOrder,
  stopping: AbortSignal | undefined,
  trialsLeft = TRIALS_MAX - 1,
): Promise<TrialResult | Failure> {
  const { uid, gid } = user;
  try {
    // Throws EPERM without an event, unlike ENOENT.
    const child = spawn(process.execPath, [trialFile], {
      uid,
      gid,
      env: { ...process.env, ...noSecrets, ...user.env },
      signal: stopping,
    });
    // A trial that ends early does not read its input.
    child.stdin.on('error', () => {});
    child.stdin.end(JSON.stringify(order));
    const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
    const [stdout, stderr, [code, signal]] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
    if (signal !== null && stdout === '' && trialsLeft > 0 && stopping?.aborted !== true)
      return await runTrial(trialFile, user, order, stopping, trialsLeft - 1);
    const end = `it ended with ${signal ?? `exit code ${code}`}`;
    return stdout === '' ? { failed: 'load', reason: firstError(stderr) ?? end } : (JSON.parse(stdout) as TrialResult);
  } catch (error) {
    // EPERM: root in a container without CAP_SETUID. EINVAL: the user has no number in this user namespace.
    const { code, message } = error as NodeJS.ErrnoException;
    return { failed: code === 'EPERM' || code === 'EINVAL' ? 'become' : 'node', reason: message };
  }
}

/** The line of Node's error output that states the error. */
function firstError(stderr: string): string | undefined {
  const lines = stderr.split('\n').map((line) => line.trim());
  return lines.find((line) => /^(\[?\w*Error\b|node:.*EACCES)/.test(line)) ?? lines.find(Boolean);
}
