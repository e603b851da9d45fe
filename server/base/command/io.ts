/** Input and output of commands. Commands write output only here. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { whyUnreadable, withoutByteOrderMark } from '../files/text.ts';
import { visible, visibleJson, visibleLine } from '../telemetry/visible.ts';

export interface CommandIo {
  environment: NodeJS.ProcessEnv;
  directory: string;
  stdin: NodeJS.ReadableStream & { isTTY?: boolean };
  stdout: NodeJS.WritableStream & { isTTY?: boolean };
  stderr: NodeJS.WritableStream & { isTTY?: boolean };
  /** Folder of the compiled thread entry points; default: that of this build. */
  workers?: string;
}

/** Prints text for people. The text may contain data from untrusted senders, so control characters are made visible. */
export function printText({ stdout }: Pick<CommandIo, 'stdout'>, text: string): void {
  stdout.write(visible(text));
}

/** Same as `printText`, on standard error: progress, advice and failures. */
export function printMessage({ stderr }: Pick<CommandIo, 'stderr'>, text: string): void {
  stderr.write(visible(text));
}

/** Prints one line on standard error. It may contain text of a server or a sender, which cannot begin another line. */
export function printLine({ stderr }: Pick<CommandIo, 'stderr'>, line: string): void {
  stderr.write(`${visibleLine(line)}\n`);
}

/** Prints bytes unchanged: output that the user requested explicitly, such as a body. */
export function printBytes({ stdout }: Pick<CommandIo, 'stdout'>, bytes: Uint8Array): void {
  stdout.write(bytes);
}

/** Exit code that a shell reports for a program that SIGPIPE ended. */
const READER_LEFT = 141;

/**
 * Like `printBytes`, for a long output in parts: resolves when the reader has taken the text. Rejects with CommandError when the output
 * cannot be written. The error has no message if the reader has left, as `head` does.
 */
export function printPart({ stdout }: Pick<CommandIo, 'stdout'>, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stdout.write(text, (error?: NodeJS.ErrnoException | null) => {
      if (!error) return resolve();
      stdout.once('error', () => {});
      reject(error.code === 'EPIPE' ? new CommandError('', READER_LEFT) : new CommandError(unwritable(error)));
    });
  });
}

function unwritable({ code, message }: NodeJS.ErrnoException): string {
  return `standard output cannot be written: ${code ?? message}.`;
}

/** The members of a document for people, one a line. */
export function membersText(document: object): string {
  const width = Math.max(...Object.keys(document).map((name) => name.length)) + 2;
  return Object.entries(document)
    .map(([name, value]) => `${name.padEnd(width)}${visibleLine(memberText(value))}`.trimEnd().concat('\n'))
    .join('');
}

function memberText(value: unknown): string {
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '');
}

/** Reads all of standard input, without the line end at its end. */
export async function readLine({ stdin }: Pick<CommandIo, 'stdin'>): Promise<string> {
  return withoutByteOrderMark(await textOf(stdin)).replace(/\r?\n$/, '');
}

/** Reads a text file that an argument or an option names. Rejects with CommandError (usage). */
export function readGiven({ directory }: Pick<CommandIo, 'directory'>, file: string): Promise<string> {
  return readFile(resolve(directory, file), 'utf8').then(withoutByteOrderMark, (error) => {
    throw new CommandError(`${file} cannot be read: ${whyUnreadable(error)}.`, 2);
  });
}

/** Prints the `--json` document on one line. */
export function printJson({ stdout }: CommandIo, value: unknown): void {
  stdout.write(jsonLine(value));
}

/** Formats a document as one line of JSON with control characters escaped. */
export function jsonLine(value: unknown): string {
  return `${visibleJson(JSON.stringify(value))}\n`;
}

/**
 * Ignores a closed pipe on the outputs. A reader such as `head` may close the output early; the command then still runs to its end and
 * cleans up. Any other output error, such as a full disk, is reported once, unless the command registers its own listener.
 * @param onFailed called before that report
 */
export function watchOutputs({ stdout, stderr }: Pick<CommandIo, 'stdout' | 'stderr'>, onFailed: () => void): void {
  let isReported = false;
  for (const output of [stdout, stderr])
    output.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE' || output.listenerCount('error') > 1 || isReported) return;
      isReported = true;
      onFailed();
      if (output === stdout) printMessage({ stderr }, `weir: ${unwritable(error)}\n`);
    });
}

/** Handles the signals that end a command, until the returned function is called. */
export function onSignals(handle: (signal: NodeJS.Signals) => void): () => void {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, handle);
  return () => {
    for (const signal of signals) process.off(signal, handle);
  };
}

/** `12,345` */
export function wholeText(value: number): string {
  return Math.round(value).toLocaleString('en-GB');
}

/** A failure that is reported in one sentence; the process exits with `exitCode` (1 failure, 2 usage). */
export class CommandError extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * Formats rows as columns for people: two spaces between columns, header first. Control characters, including line feeds, are made visible.
 * A cell without a value is empty.
 */
export function table(header: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const all = [header, ...rows].map((row) => row.map((cell) => visibleLine(String(cell ?? ''))));
  const widths = header.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  const line = (row: string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd();
  return all.map((row) => `${line(row)}\n`).join('');
}

/** A cell of an item: a member, a member with the text that replaces null, or a function of the item. */
export type TableCell<Item, Context = undefined> =
  | keyof Item
  | readonly [member: keyof Item, whenNull: string]
  | ((item: Item, context: Context) => unknown);

/** A table with a row for each item. */
export function itemsTable<Item, Context = undefined>(
  header: readonly string[],
  cells: readonly TableCell<Item, Context>[],
  items: readonly Item[],
  context?: Context,
): string {
  const shown = (item: Item, cell: TableCell<Item, Context>) => {
    if (typeof cell === 'function') return cell(item, context as Context);
    const [member, whenNull] = (typeof cell === 'object' ? cell : [cell]) as readonly [keyof Item, string?];
    return item[member] ?? whenNull;
  };
  return table(
    header,
    items.map((item) => cells.map((cell) => shown(item, cell))),
  );
}
