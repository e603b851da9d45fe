import type { Command } from 'commander';
import { runPrimary } from '../primary/primary.ts';
import { takeServiceEnvironment } from '../primary/systemd.ts';
import { readConfiguration } from '../settings/read.ts';
import { CommandError, type CommandIo } from './io.ts';

/** `weir start`: serves until a signal stops it. `weir start --check` only reads the settings. */
export function defineStart(command: Command, io: CommandIo): void {
  command.option('--check', 'check the settings, then exit').action(async ({ check }: { check?: boolean }) => {
    if (check) {
      readConfiguration(io.environment, io.directory);
      return;
    }
    const service = takeServiceEnvironment(io.environment);
    const configure = () => readConfiguration(io.environment, io.directory);
    const code = await runPrimary(configure, io.stdout.isTTY === true, service);
    // The reason is in the log.
    if (code !== 0) throw new CommandError('', code);
  });
}
