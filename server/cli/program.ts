/** The command line as a tree of commands, of which only those that are needed are loaded. */
import { Command } from 'commander';
import { release } from '../files/build.ts';
import { type CommandEntry, commands } from './commands.ts';
import type { CommandIo } from './io.ts';

/** The program for these arguments: the command that they name is complete, the others have their name and description. */
export function buildProgram(io: CommandIo, args: readonly string[]): Promise<Command> {
  const [first, second] = args;
  const wanted = first === 'help' ? second : first;
  return assemble(io, ({ name }) => name === wanted);
}

/** The program with every command complete: for documents and completion scripts. */
export function buildWholeProgram(io: CommandIo): Promise<Command> {
  return assemble(io, () => true);
}

async function assemble(io: CommandIo, isNeeded: (entry: CommandEntry) => boolean): Promise<Command> {
  const program = new Command('weir')
    .description('Weir receives webhooks: verified, committed, then answered.')
    .version(release(), '-V, --version', 'print the release');
  for (const entry of commands) {
    const command = program.command(entry.name, { hidden: entry.hidden === true }).description(entry.description);
    if (isNeeded(entry)) (await entry.load())(command, io, () => buildWholeProgram(io));
  }
  // Set last, since commands inherit it.
  return program.configureHelp({ subcommandTerm: (command) => command.name() });
}
