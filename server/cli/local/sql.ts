import type { Command } from 'commander';
import { CommandError, type CommandIo, printJson, printText, table } from '../../base/command/io.ts';
import { withDatabase } from '../command/session.ts';

const TIMEOUT_MS = 600_000;

/** `weir sql STATEMENT`: runs one statement on the database of the settings, in a transaction that can only read unless `--write` is given. */
export function define(command: Command, io: CommandIo): void {
  command
    .argument('<statement>', 'one statement of SQL, with the first server when there are cells')
    .option('--write', 'let it change the database: Weir does not check what it does')
    .option('--json', 'print one JSON document')
    .action((text: string, { write, json }: { write?: boolean; json?: boolean }) =>
      withDatabase(io, async ({ cells }) => {
        const [home] = cells.all();
        const rows = await home!.database
          .transaction(async (query) => {
            if (!write) await query({ text: 'set transaction read only' });
            // With values, Postgres accepts one statement only: a second one could end the transaction.
            return query<Record<string, unknown>>({ text, values: [], timeoutMs: TIMEOUT_MS });
          })
          .catch((error: Error) => {
            // Without a code it is the connection that failed.
            throw (error as { code?: string }).code === undefined ? error : new CommandError(error.message);
          });
        if (json) return printJson(io, { rows });
        const shown = rows.map((row) => Object.values(row).map(cellText));
        if (rows.length > 0) printText(io, table(Object.keys(rows[0]!), shown));
        printText(io, rows.length === 1 ? '(1 row)\n' : `(${rows.length} rows)\n`);
      }),
    );
}

function cellText(value: unknown): string {
  if (value === null) return '';
  if (value instanceof Date) return value.toISOString();
  if (Buffer.isBuffer(value)) return `\\x${value.toString('hex')}`;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
