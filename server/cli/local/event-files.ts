/** `weir event export|import`: many events at once, on the machine of Weir. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { type CommandIo, printJson, printPart, printText } from '../../base/command/io.ts';
import { check, invalidQuery } from '../../base/http/issues.ts';
import { problemDocument } from '../../base/http/problem.ts';
import { type ExportFormat, exportText } from '../../manage/api/events/export.ts';
import { EventSearch } from '../../manage/api/events/search.ts';
import { eventCountQuery, eventFilterOf } from '../../model/event-filter.ts';
import { counted } from '../../model/words.ts';
import { importEvents } from '../../operate/backup/read.ts';
import { wholeNumber } from '../command/arguments.ts';
import { refuseRemote } from '../command/program.ts';
import { withDatabase } from '../command/session.ts';
import { ProblemFailure } from '../manage/call.ts';
import { callDatabase } from '../manage/database.ts';
import { type FilterOptions, filterOptions, queryOfFilters } from '../manage/resources/event-filters.ts';
import { addOptions } from '../manage/row.ts';

interface ExportOptions extends FilterOptions {
  format: ExportFormat;
  limit?: number;
}

/** Adds `export` and `import` to `weir event`. */
export function define(command: Command, io: CommandIo): void {
  const exporting = command
    .command('export')
    .description('write stored events as NDJSON with their bodies, or as CSV, newest first');
  addOptions(exporting, [
    ...filterOptions,
    new Option('--format <format>', 'ndjson or csv').choices(['ndjson', 'csv']).default('ndjson'),
    ['--limit <events>', 'maximum number; default: all', wholeNumber()],
  ]);
  exporting.action(({ format, limit = Number.MAX_SAFE_INTEGER, ...given }: ExportOptions) =>
    withDatabase(io, async (session) => {
      const { database } = session;
      const query = check(eventCountQuery, await queryOfFilters(callDatabase(session), given));
      if ('issues' in query) throw new ProblemFailure(problemDocument(invalidQuery(query), ''));
      // The search limit cannot be reached: this is the only search in this process.
      const parts = { database, search: new EventSearch(database, Infinity) };
      const order = { ...eventFilterOf(query.data, null, null), format, bodies: format === 'ndjson' };
      for await (const part of exportText(parts, order, undefined, limit)) await printPart(io, part);
    }),
  );

  const importing = command
    .command('import')
    .description(
      'store the events of an archived day, or of an export with bodies, with their ids; they get no deliveries',
    )
    .argument('<file>', 'NDJSON; compressed when the name ends in .gz')
    .option('--json', 'print one JSON document')
    .action((file: string, { json }: { json?: boolean }) =>
      withDatabase(io, async ({ cells, settings }) => {
        const days = { retentionDays: settings.RETENTION_DAYS, nowMs: Date.now() };
        const { imported, existing } = await importEvents(cells, resolve(io.directory, file), days);
        if (json) printJson(io, { imported, existing });
        else
          printText(
            io,
            `Imported ${counted(imported, 'event')}; ${existing} ${existing === 1 ? 'was' : 'were'} stored already.\n`,
          );
      }),
    );

  refuseRemote(exporting, io);
  refuseRemote(importing, io);
}
