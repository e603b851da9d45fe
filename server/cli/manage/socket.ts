/** Management commands on the Weir of this machine: the routes of the API over the Unix socket in DATA_DIR, without a token. */
import { lstat, realpath } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError, type CommandIo } from '../../base/command/io.ts';
import { weirCommand } from '../../base/command/name.ts';
import { builtFile } from '../../base/files/build.ts';
import { commandSocket } from '../../base/files/data-dir.ts';
import { ClientPackage } from '../../base/http/client-package.ts';
import { readSettings } from '../../base/settings/read.ts';
import { type ApiClient, openApiClient } from '../../deliver/client/http.ts';
import { COMMAND_USER_FIELD } from '../../manage/auth/local.ts';
import { systemName } from '../../store/audit/record.ts';
import type { Connection, UsesDatabase } from './call.ts';
import { callOver, NOTHING_SERVES } from './remote.ts';

/** How long a killed process may leave its socket behind: until the primary notices, and another process serves. */
const REPLACED_MS = 5_000;
const RETRY_MS = 50;

/** The socket of the Weir of this machine. The client rejects with `nothingServes` when no Weir serves. */
export function openSocket(io: CommandIo) {
  const settings = readSettings(io.environment, io.directory);
  const { DATA_DIR } = settings;
  const link = commandSocket(DATA_DIR);
  const nothingServes = new CommandError(
    `no Weir serves in ${DATA_DIR}: set DATA_DIR, run in its directory, give --url, or start one: ${weirCommand()} start`,
    NOTHING_SERVES,
  );
  return { settings, link, nothingServes, client: socketClient(link, nothingServes) };
}

/** Opens the Weir of this machine. Rejects with CommandError. @param database absent: the command needs a Weir that serves */
export async function openLocal(io: CommandIo, database?: UsesDatabase): Promise<Connection> {
  if (database === 'always') return openDatabase(io);
  const { settings, link, nothingServes, client } = openSocket(io);
  const isServing = (await reached(link, connects)) !== null;
  if (!isServing && database === 'unless_served') return openDatabase(io);
  if (!isServing) throw nothingServes;
  return {
    ...callOver(client, ''),
    remote: null,
    apiUrl: settings.FRONTEND_PUBLIC_API_URL,
    get clientCommand() {
      return new ClientPackage(settings.PUBLIC_URL, dirname(io.workers ?? builtFile('workers'))).command;
    },
  };
}

async function openDatabase(io: CommandIo): Promise<Connection> {
  return (await import('./database.ts')).openDatabaseConnection(io);
}

/**
 * Tries the socket that the link names, and repeats that while a killed process is replaced. Resolves with null when no Weir serves.
 * Rejects with CommandError for another user.
 * @param attempt resolves with null without a connection
 */
async function reached<T>(link: string, attempt: (socketPath: string) => Promise<T | null>): Promise<T | null> {
  const untilMs = performance.now() + REPLACED_MS;
  for (;;) {
    try {
      await lstat(link);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EACCES') throw refusedUser(link);
      return null;
    }
    // The path of the link may be too long for a socket, that of its target is not.
    const socketPath = await realpath(link).catch(({ code }: NodeJS.ErrnoException) => {
      if (code === 'EACCES') throw refusedUser(link);
      return null;
    });
    const outcome = socketPath === null ? null : await attempt(socketPath);
    if (outcome !== null) return outcome;
    if (performance.now() > untilMs) return null;
    await delay(RETRY_MS);
  }
}

/** Null: nothing listens. */
function connects(socketPath: string): Promise<true | null> {
  return new Promise((resolve) => {
    const socket = connect(socketPath, () => resolve(true));
    socket.on('error', () => resolve(null)).on('connect', () => socket.destroy());
  });
}

function refusedUser(link: string): CommandError {
  return new CommandError(
    `the user ${systemName()} may not use ${link}: run the command as the user that Weir serves as, or as root, or give --url`,
  );
}

/** Each request has a connection of its own, and follows the link again. No time limit: the primary ends a process that hangs. */
function socketClient(link: string, nothingServes: CommandError): ApiClient {
  const headers = { [COMMAND_USER_FIELD]: encodeURIComponent(systemName()) };
  const sendTo = (socketPath: string, call: Parameters<ApiClient['send']>[0]) => {
    const client = openApiClient(new URL('http://localhost'), socketPath);
    return client.send({ ...call, headers, timeoutMs: 0 }).finally(client.close);
  };
  return {
    base: link,
    update: () => null,
    close: () => {},
    async send(call) {
      const answer = await reached(link, async (socketPath) => {
        const sent = await sendTo(socketPath, call);
        // Without a connection, or when it closed before the whole request was written, no process has run the request.
        const repeated = ['ECONNREFUSED', 'ENOENT', 'EPIPE'];
        // A GET changes nothing, so it may be repeated after a reset.
        if (call.method === 'GET') repeated.push('ECONNRESET');
        return sent.kind === 'failed' && repeated.includes(sent.name) ? null : sent;
      });
      if (answer === null) throw nothingServes;
      return answer;
    },
  };
}
