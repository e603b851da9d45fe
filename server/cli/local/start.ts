import type { Command } from 'commander';
import { CommandError, type CommandIo, printLine, printText } from '../../base/command/io.ts';
import { describeUnknown } from '../../base/settings/gather.ts';
import { loadSettings } from '../../base/settings/read.ts';
import { runPrimary } from '../../operate/primary/primary.ts';
import { takeServiceEnvironment } from '../../operate/primary/systemd.ts';

/** `weir start`: serves until a signal stops it. `weir start --check` only reads the settings. */
export function define(command: Command, io: CommandIo): void {
  command.option('--check', 'check the settings, then exit').action(async ({ check }: { check?: boolean }) => {
    if (check) {
      const { unknown } = loadSettings(io.environment, io.directory);
      if (unknown.length > 0)
        printLine(io, `weir: unknown settings, which change nothing: ${unknown.map(describeUnknown).join(', ')}`);
      printText(io, 'The settings are valid.\n');
      return;
    }
    const service = takeServiceEnvironment(io.environment);
    const configure = () => loadSettings(io.environment, io.directory);
    const code = await runPrimary(configure, io.stdout.isTTY === true, service);
    // The reason is in the log.
    if (code !== 0) throw new CommandError('', code);
  });
}
