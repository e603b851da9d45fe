/** Runs commands: as a program, or inside of a test. Exit codes: 0 done, 1 failure, 2 wrong usage. */
import { type Command, CommanderError } from 'commander';
import {
  CommandError,
  type CommandIo,
  onSignals,
  printMessage,
  printText,
  watchOutputs,
} from '../../base/command/io.ts';
import { OperatorError } from '../../model/fault.ts';
import { DatabaseUnavailable, oneLine } from '../../store/connect/unavailable.ts';
import { buildProgram, type CommandEntry, pathOf } from './program.ts';

/** Runs the command of this process, and sets its exit code. */
export async function runProgram(commands: readonly CommandEntry[]): Promise<void> {
  let isUnwritable = false;
  watchOutputs(process, () => {
    isUnwritable = true;
    process.exitCode = 1;
  });
  const code = await runCommand(commands, process.argv.slice(2), {
    environment: process.env,
    directory: process.cwd(),
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
  });
  // A failed write may be reported before or after the command ends.
  process.exitCode = isUnwritable ? 1 : code;
}

/** Runs one command; resolves with the exit code. Failures are printed on stderr in one sentence. */
export async function runCommand(
  commands: readonly CommandEntry[],
  args: readonly string[],
  io: CommandIo,
): Promise<number> {
  try {
    const program = await buildProgram(commands, io, args);
    for (const command of [program, ...allCommands(program)])
      command
        .exitOverride()
        .showHelpAfterError(`See: ${pathOf(command)} --help`)
        .configureOutput({
          writeOut: (text) => printText(io, text),
          writeErr: (text) => printMessage(io, text),
        });
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof CommandError) {
      if (error.message !== '') printMessage(io, `weir: ${error.message}\n`);
      return error.exitCode;
    }
    printMessage(io, `${describeFailure(error)}\n`);
    return 1;
  }
}

function allCommands(command: Command): Command[] {
  return command.commands.flatMap((child) => [child, ...allCommands(child)]);
}

/** Returns the message alone for an expected error, and the stack for a bug. */
function describeFailure(error: unknown): string {
  if (error instanceof OperatorError)
    return error.message
      .split('\n')
      .map((line) => `weir: ${line}`)
      .join('\n');
  if (error instanceof DatabaseUnavailable)
    return `weir: the database stopped answering; try again when it is back: ${oneLine(error.message)}`;
  // An error of the system, such as a full disk, is not a bug.
  if (error instanceof Error && 'syscall' in error) return `weir: ${error.message}`;
  return `weir: unexpected failure, please report it: ${error instanceof Error ? error.stack : String(error)}`;
}

/**
 * Runs the work with an AbortSignal that aborts when the program is asked to end; the work then cleans up and settles. Later requests change
 * nothing: npm forwards the Ctrl-C of a terminal a second time.
 */
export async function untilSignal<T>(work: (stop: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const ignoreSignals = onSignals(() => stop.abort());
  try {
    return await work(stop.signal);
  } finally {
    ignoreSignals();
  }
}
