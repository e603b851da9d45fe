/** Management commands over the network: the routes of the API, with an API token. See socket.ts for the Weir of this machine. */
import type { Command } from 'commander';
import { CommandError, type CommandIo, readGiven } from '../../base/command/io.ts';
import { isSafeUrl } from '../../base/net/loopback.ts';
import { type ApiClient, openApiClient } from '../../deliver/client/http.ts';
import type { BodyOf } from '../../manage/api/operations.ts';
import { type OperationName, operationRoutes } from '../../manage/api/routes.ts';
import { parseCredential } from '../../model/credential.ts';
import { parseAddress } from '../command/arguments.ts';
import {
  type CallArguments,
  type Connection,
  type OpenConnection,
  type ProblemDocument,
  ProblemFailure,
  queryOf,
  type UsesDatabase,
} from './call.ts';

export interface RemoteOptions {
  url?: string;
  tokenFile?: string;
  insecure?: boolean;
}

const ANSWER_TIMEOUT_MS = 60_000;
/** Exit code when nothing serves in DATA_DIR, or nothing listens at --url. */
export const NOTHING_SERVES = 3;

/** Adds the options of RemoteOptions. */
export function withRemoteOptions(command: Command): Command {
  return command
    .option('--url <url>', 'work on the Weir at this base URL of its API, instead of on this machine; also WEIR_URL')
    .option('--token-file <file>', 'file with the API token for --url; also WEIR_TOKEN')
    .option('--insecure', 'send the token over http to another machine');
}

/**
 * The remote Weir of --url or WEIR_URL, else the local one. Both variables are read from the environment only: a file .env in the
 * working directory must not send a command or its token somewhere else.
 */
export async function openRemote(
  io: CommandIo,
  { url: given, tokenFile, insecure }: RemoteOptions,
  openLocal: OpenConnection | null,
  database?: UsesDatabase,
): Promise<Connection> {
  const address = given ?? (io.environment.WEIR_URL || undefined);
  if (address === undefined) {
    if (tokenFile !== undefined || insecure) throw new CommandError('--token-file and --insecure are for --url.', 2);
    if (openLocal === null) throw new CommandError('give the base URL of the API: --url, or set WEIR_URL', 2);
    return openLocal(io, database);
  }
  const url = parseAddress(address);
  if (!isSafeUrl(url) && !insecure)
    throw new CommandError(
      `${url.origin} is http on another machine: anyone on the way can read the token. Give an https URL, or --insecure.`,
      2,
    );
  const token = await readToken({ tokenFile }, io);
  const client = openApiClient(url);
  const base = client.base.replace(/\/$/, '');
  return { ...callOver(client, token), remote: base, apiUrl: base, clientCommand: 'npx --no weir' };
}

/** The API token. Messages never include any part of it. Throws CommandError (usage) when there is no token, or the text is not a token. */
export async function readToken(
  { token, tokenFile }: { token?: string | undefined; tokenFile?: string | undefined },
  io: Pick<CommandIo, 'directory' | 'environment'>,
): Promise<string> {
  if (token !== undefined && tokenFile !== undefined)
    throw new CommandError('--token and --token-file were both given; give one of them.', 2);
  const given = tokenFile === undefined ? (token ?? io.environment.WEIR_TOKEN ?? '') : await readGiven(io, tokenFile);
  const text = given.trim();
  if (text === '')
    throw new CommandError('The API token is missing; give --token-file or --token, or set WEIR_TOKEN.', 2);
  if (parseCredential('wu', text) !== null) return text;
  const where = tokenFile ?? (token === undefined ? 'WEIR_TOKEN' : '--token');
  throw new CommandError(`${where} is not an API token (wu_…); create one: weir token add --email E --name NAME`, 2);
}

/**
 * Calls operations over HTTP.
 * @param token '': the client needs none
 * @param timeoutMs long enough for a long search
 */
export function callOver(
  client: ApiClient,
  token: string,
  timeoutMs = ANSWER_TIMEOUT_MS,
): Pick<Connection, 'call' | 'readBytes' | 'close'> {
  const { signal } = new AbortController();

  /** Rejects with CommandError. */
  async function send(name: OperationName, given: CallArguments & { bytes?: true }): Promise<object | null> {
    const { method, path } = requestOf(name, given);
    // Redirects are not followed: the token goes to no other host.
    const answer = await client.send({
      method,
      path,
      token,
      bytes: given.bytes ?? false,
      ...(given.input === undefined ? {} : { body: given.input }),
      timeoutMs,
      signal,
    });
    if (answer.kind === 'failed')
      throw new CommandError(
        `${client.base} did not answer: ${answer.name}.`,
        answer.name === 'ECONNREFUSED' ? NOTHING_SERVES : 1,
      );
    const { status, document } = answer;
    if (status === 204 && method !== 'GET') return null;
    if (status >= 200 && status < 300 && isObject(document)) return document;
    const problem = (isObject(document) ? document : {}) as ProblemDocument;
    if (status === 401) {
      const detail = `${client.base} refused the API token: it expired or was revoked, or belongs to another Weir server.`;
      throw new ProblemFailure({ code: 'unauthenticated', ...problem, detail });
    }
    if (typeof problem.code === 'string') throw new ProblemFailure(problem, given.id);
    const where = status >= 300 && status < 400 ? 'a redirect, which is not followed' : 'no document of Weir';
    const change = client.update(status);
    throw new CommandError(
      `${client.base} answered ${path} with ${status} and ${where}; give the base URL of Weir's API.${change === null ? '' : ` ${change}`}`,
    );
  }

  return {
    close: async () => client.close(),
    call: async <Name extends OperationName>(name: Name, given: CallArguments = {}) =>
      (await send(name, given)) as BodyOf<Name>,
    readBytes: async (name, id) => (await send(name, { id, bytes: true })) as Uint8Array,
  };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** The request of an operation, from the route table. Path relative to the base URL. */
function requestOf(name: OperationName, { id = '', innerId = '', query = {} }: CallArguments) {
  const [method, template] = operationRoutes.find((route) => route[2] === name)!;
  const ids = [id, innerId];
  const path = template.slice(1).replace(/:\w+/g, () => encodeURIComponent(ids.shift()!));
  const parameters = new URLSearchParams(queryOf(query));
  return { method, path: parameters.size === 0 ? path : `${path}?${parameters}` };
}
