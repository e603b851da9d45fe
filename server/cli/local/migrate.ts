import type { Command } from 'commander';
import { type CommandIo, printJson, printText } from '../../base/command/io.ts';
import { withDatabase } from '../command/session.ts';

/** `weir migrate`: upgrades the schema to this release. `weir start` does the same. */
export function defineMigrate(command: Command, io: CommandIo): void {
  command.option('--json', 'print one JSON document').action(({ json }: { json?: boolean }) =>
    withDatabase(io, async ({ migrated }) => {
      if (json) printJson(io, { applied: migrated });
      else printText(io, migrated.length === 0 ? 'The schema is up to date.\n' : `Applied ${migrated.join(', ')}.\n`);
    }),
  );
}
