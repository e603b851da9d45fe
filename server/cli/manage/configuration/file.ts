/** Reads the file of `weir apply`: YAML, of which JSON is a part. */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { LineCounter, parseDocument } from 'yaml';
import { CommandError, type CommandIo, readGiven } from '../../../base/command/io.ts';
import { withoutByteOrderMark } from '../../../base/files/text.ts';
import { type Configuration, configurationSchema, type Reference } from '../../../model/configuration.ts';

const SHOWN_MAX = 10;

/** Reads the file, or standard input for `-`. Throws CommandError. */
export async function readConfiguration(io: CommandIo, path: string): Promise<Configuration> {
  const text = withoutByteOrderMark(path === '-' ? String(await buffer(io.stdin)) : await readGiven(io, path));
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const [wrong] = [...document.errors, ...document.warnings];
  if (wrong !== undefined) throw new CommandError(`${path}: ${wrong.message.split('\n')[0]}`, 2);
  let content: unknown;
  try {
    content = document.toJS();
  } catch (error) {
    // Aliases that expand to too much.
    throw new CommandError(`${path}: ${(error as Error).message}`, 2);
  }
  const { data, error } = configurationSchema.safeParse(content);
  if (data !== undefined) return data;
  const shown = error.issues.slice(0, SHOWN_MAX).map(({ path: members, message }) => {
    const [start] = (document.getIn(members, true) as { range?: [number] } | undefined)?.range ?? [];
    const line = start === undefined ? '' : ` line ${lines.linePos(start).line}:`;
    return `${path}:${line} ${members.join('.') || 'the file'}: ${message}`;
  });
  throw new CommandError(shown.join(' '), 2);
}

/**
 * The secret of a reference, without one line end at its end.
 * @param path of the configuration @param whose for messages. Throws CommandError.
 */
export async function resolveReference(io: CommandIo, path: string, of: Reference, whose: string): Promise<string> {
  if ('env' in of) {
    const value = io.environment[of.env];
    if (!value) throw new CommandError(`${whose}: the environment variable ${of.env} is not set`);
    return value;
  }
  const folder = path === '-' ? io.directory : dirname(resolve(io.directory, path));
  try {
    return withoutByteOrderMark(await readFile(resolve(folder, of.file), 'utf8')).replace(/\r?\n$/, '');
  } catch (error) {
    throw new CommandError(`${whose}: ${of.file} cannot be read: ${(error as Error).message}`);
  }
}
