/** What a command may touch of the world outside; tests hand in their own. */
export interface CommandIo {
  environment: NodeJS.ProcessEnv;
  directory: string;
  stdin: NodeJS.ReadableStream;
  stdout: NodeJS.WritableStream & { isTTY?: boolean };
  stderr: NodeJS.WritableStream & { isTTY?: boolean };
}

/** What `--json` asks for: one document, in one line. */
export function printJson({ stdout }: CommandIo, value: unknown): void {
  stdout.write(`${JSON.stringify(value)}\n`);
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
