import type { Command } from 'commander';
import { runPrimary } from '../primary/primary.ts';
import { readConfiguration } from '../settings/read.ts';
import { CommandError, type CommandIo } from './io.ts';

/** `weir start`: serves until a signal stops it. */
export function defineStart(command: Command, io: CommandIo): void {
  command.action(async () => {
    const code = await runPrimary(() => readConfiguration(io.environment, io.directory), io.stdout.isTTY === true);
    // The reason is in the log.
    if (code !== 0) throw new CommandError('', code);
  });
}
