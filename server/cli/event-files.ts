/** `weir event export|import`: many events at once, on the machine of Weir. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { type ExportFormat, exportText } from '../api/events/export.ts';
import { EventSearch } from '../api/events/search.ts';
import { importEvents } from '../archive/read.ts';
import { check, invalidQuery } from '../http/issues.ts';
import { problemDocument } from '../http/problem.ts';
import { eventCountQuery, eventFilterOf } from '../resources/event-filter.ts';
import { positive } from './arguments.ts';
import { type FilterOptions, queryOfFilters, withFilters } from './event/filters.ts';
import { type CommandIo, printJson, printPart, printText } from './io.ts';
import { ProblemFailure } from './manage/call.ts';
import { callLocally } from './manage/local.ts';
import { refuseRemote } from './program.ts';
import { withDatabase } from './session.ts';

interface ExportOptions extends FilterOptions {
  format: ExportFormat;
  limit: number;
}

/** Adds the commands to `weir event`. */
export function defineEventFiles(command: Command, io: CommandIo): void {
  const exporting = withFilters(
    command.command('export').description('write stored events as NDJSON with their bodies, or as CSV, newest first'),
  )
    .addOption(new Option('--format <format>', 'ndjson or csv').choices(['ndjson', 'csv']).default('ndjson'))
    .option('--limit <events>', 'maximum number', positive, Number.MAX_SAFE_INTEGER)
    .action(({ format, limit, ...given }: ExportOptions) =>
      withDatabase(io, async (session) => {
        const { database } = session;
        const query = check(eventCountQuery, await queryOfFilters(callLocally(session), given));
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
      withDatabase(io, async ({ database, settings }) => {
        const days = { retentionDays: settings.RETENTION_DAYS, nowMs: Date.now() };
        const { imported, existing } = await importEvents(database, resolve(io.directory, file), days);
        if (json) printJson(io, { imported, existing });
        else printText(io, `Imported ${imported} events; ${existing} were stored already.\n`);
      }),
    );

  refuseRemote(exporting, io);
  refuseRemote(importing, io);
}
