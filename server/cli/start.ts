import { Command } from 'commander';
import { runPrimary } from '../primary/primary.ts';
import { readConfiguration } from '../settings/read.ts';
import type { CommandIo } from './io.ts';

/** `weir start`: serves until a signal stops it. */
export function startCommand(io: CommandIo, onExit: (code: number) => void): Command {
  return new Command('start').description('run the service').action(async () => {
    onExit(await runPrimary(() => readConfiguration(io.environment, io.directory), io.stdout.isTTY === true));
  });
}
