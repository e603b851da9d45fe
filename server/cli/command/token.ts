/** The API token of a command that calls a remote Weir. Messages never include any part of it. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CommandError, type CommandIo } from '../../base/command/io.ts';
import { parseCredential } from '../../model/credential.ts';

/** Throws CommandError (usage) when there is no token, or the text is not a token. */
export async function readToken(
  { token, tokenFile }: { token?: string; tokenFile?: string },
  io: Pick<CommandIo, 'directory' | 'environment'>,
): Promise<string> {
  if (token !== undefined && tokenFile !== undefined)
    throw new CommandError('--token and --token-file were both given; give one of them.', 2);
  const given =
    tokenFile === undefined ? (token ?? io.environment.WEIR_TOKEN ?? '') : await read(tokenFile, io.directory);
  const text = given.trim();
  if (text === '')
    throw new CommandError('The API token is missing; give --token-file or --token, or set WEIR_TOKEN.', 2);
  if (parseCredential('wu', text) !== null) return text;
  const where = tokenFile ?? (token === undefined ? 'WEIR_TOKEN' : '--token');
  throw new CommandError(`${where} is not an API token (wu_…); create one: weir token add --email E --name listen`, 2);
}

function read(file: string, directory: string): Promise<string> {
  return readFile(resolve(directory, file), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`${file} cannot be read: ${error.code ?? error.message}.`, 2);
  });
}
