import type { Command } from 'commander';
import { type CommandIo, printJson, printLine, printText } from '../../base/command/io.ts';
import { migrateAnsweringCells } from '../../store/cells/cells.ts';
import { describeBlocked } from '../../store/migrate.ts';
import { withDatabase } from '../command/session.ts';

/** `weir migrate`: upgrades the schema to this release, at home and in each cell that answers. `weir start` does the same. */
export function define(command: Command, io: CommandIo): void {
  command.option('--json', 'print one JSON document').action(({ json }: { json?: boolean }) =>
    withDatabase(
      io,
      async ({ migrated, cells: all }) => {
        const ofCells: { migration: string; number: number }[] = [];
        await migrateAnsweringCells(all, {
          onApplied: (migration, { number }) => ofCells.push({ migration, number }),
          onBlocked: (waitsFor, cell) => printLine(io, `weir: ${describeBlocked(waitsFor, cell)}`),
          waitsForLocks: true,
        });
        const cells = all
          .all()
          .slice(1)
          .map(({ number, name, away }) => {
            const applied = ofCells.filter((one) => one.number === number).map(({ migration }) => migration);
            return { number, name, applied, away };
          });
        if (json) return printJson(io, { applied: migrated, ...(cells.length > 0 && { cells }) });
        printText(io, migrated.length === 0 ? 'The schema is up to date.\n' : `Applied ${migrated.join(', ')}.\n`);
        for (const { number, name, applied, away } of cells) {
          const isDone = applied.length === 0 ? 'up to date' : `applied ${applied.join(', ')}`;
          printText(
            io,
            `Cell ${number} (${name}): ${away === null ? isDone : `${away}; Weir migrates it when it is used again`}.\n`,
          );
        }
      },
      { migrates: true },
    ),
  );
}
