/** The tree of commands. Only the command that runs is loaded. */
import { Command } from 'commander';
import { CommandError, type CommandIo } from '../../base/command/io.ts';
import { build, buildName } from '../../base/files/build.ts';

/** Adds arguments, options, subcommands and the action to a command. @param whole builds the program with every command */
export type Define = (command: Command, io: CommandIo, whole: () => Promise<Command>) => void;

export interface CommandEntry {
  name: string;
  description: string;
  /** It works on the Weir of this machine only. */
  local?: true;
  /** Loads the module of the command. Only the command that runs is loaded: all together take 1 s of CPU time. */
  load: () => Promise<{ define: Define }>;
}

/** Describes a command, which may work on a remote Weir. */
export function entry(name: string, description: string, load: CommandEntry['load']): CommandEntry {
  return { name, description, load };
}

/**
 * The program for these arguments: the command that they name is complete, the others have their name and description. Without arguments
 * every command is complete, for documents and completion scripts.
 */
export async function buildProgram(
  commands: readonly CommandEntry[],
  io: CommandIo,
  args?: readonly string[],
): Promise<Command> {
  const wanted = args?.[args[0] === 'help' ? 1 : 0];
  const program = new Command('weir')
    .description('Weir receives webhooks: verified, committed, then answered.')
    .version(buildName(build()), '-V, --version', 'print the release and the commit');
  for (const entry of commands) {
    const command = program.command(entry.name).description(entry.description);
    if (entry.local) refuseRemote(command, io);
    if (args !== undefined && entry.name !== wanted) continue;
    (await entry.load()).define(command, io, () => buildProgram(commands, io));
  }
  // Set last: a command inherits it when it is created, and only the program is to have it.
  return program.configureHelp({ subcommandTerm: (command) => command.name() });
}

/** Refuses WEIR_URL: a command that ignored it would change another Weir than the person means. */
export function refuseRemote(command: Command, { environment }: CommandIo): void {
  command.hook('preAction', () => {
    if (!environment.WEIR_URL) return;
    throw new CommandError(
      `${pathOf(command)} works on the Weir of this machine only, and WEIR_URL names another; unset WEIR_URL, or run it on that machine`,
      2,
    );
  });
}

/** The words that name a command, as `weir webhook add`. */
export function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
