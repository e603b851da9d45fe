import type { Command } from 'commander';
import { CommandError, type CommandIo } from '../../base/command/io.ts';
import { readConfiguration } from '../../base/settings/read.ts';
import { runPrimary } from '../../operate/primary/primary.ts';
import { takeServiceEnvironment } from '../../operate/primary/systemd.ts';

/** `weir start`: serves until a signal stops it. `weir start --check` only reads the settings. */
export function define(command: Command, io: CommandIo): void {
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
