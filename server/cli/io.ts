/** What a command may touch of the world outside, and the only place from which commands write to it. */
import { visible, visibleJson } from '../telemetry/visible.ts';

/** Tests hand in their own. */
export interface CommandIo {
  environment: NodeJS.ProcessEnv;
  directory: string;
  stdin: NodeJS.ReadableStream;
  stdout: NodeJS.WritableStream & { isTTY?: boolean };
  stderr: NodeJS.WritableStream & { isTTY?: boolean };
}

/** Lines for people. They may hold what a stranger sent, so that control characters are shown instead of sent to the terminal. */
export function printText({ stdout }: Pick<CommandIo, 'stdout'>, text: string): void {
  stdout.write(visible(text));
}

/** The same on standard error: progress, advice and failures. */
export function tellText({ stderr }: Pick<CommandIo, 'stderr'>, text: string): void {
  stderr.write(visible(text));
}

/** Bytes as they are: what a person asked for by name, such as a body. */
export function printBytes({ stdout }: Pick<CommandIo, 'stdout'>, bytes: Uint8Array): void {
  stdout.write(bytes);
}

/** What `--json` asks for: one document, in one line. */
export function printJson({ stdout }: CommandIo, value: unknown): void {
  stdout.write(jsonLine(value));
}

/** A document as one line of JSON, its control characters as escapes. */
export function jsonLine(value: unknown): string {
  return `${visibleJson(JSON.stringify(value))}\n`;
}

/**
 * Whoever reads the output may leave before its end, as `head` does. That ends no command halfway, with what it started left
 * behind; any other fault of the output is a failure, unless the command listens to it by itself.
 */
export function outliveReaders(outputs: readonly NodeJS.WritableStream[]): void {
  for (const output of outputs)
    output.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && output.listenerCount('error') === 1) throw error;
    });
}

/** A failure to be told in one sentence; the process exits with `exitCode` (1 failure, 2 usage). */
export class CommandError extends Error {
  readonly exitCode: 1 | 2;
  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}
