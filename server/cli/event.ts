import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { type ExportFormat, exportText } from '../api/events/export.ts';
import { describeEvent } from '../api/events/filter.ts';
import { EventSearch } from '../api/events/search.ts';
import { importEvents } from '../archive/read.ts';
import { isTimedId } from '../db/ids.ts';
import { findEvent } from '../db/queries/events.ts';
import { eventFilterOf } from '../resources/event-filter.ts';
import { positive, uuid } from './arguments.ts';
import { type FilterOptions, filtersOf, withFilters } from './event/filters.ts';
import { replayCommand } from './event-replay.ts';
import { CommandError, type CommandIo, printBytes, printJson, printPart, printText, table } from './io.ts';
import { withDatabase } from './session.ts';

interface Output {
  json?: boolean;
}

interface ListOptions extends FilterOptions, Output {
  limit: number;
}

interface ExportOptions extends FilterOptions {
  format: ExportFormat;
  limit: number;
}

function searchOf(given: FilterOptions) {
  return eventFilterOf(filtersOf(given), null, null);
}

/** `weir event list|export|import|show|replay`. */
export function defineEvent(command: Command, io: CommandIo): void {
  withFilters(command.command('list').description('show the newest events'))
    .option('--limit <events>', 'maximum number', positive, 20)
    .option('--json', 'print one JSON document')
    .action(({ limit, json, ...given }: ListOptions) =>
      withDatabase(io, async ({ database }) => {
        const { filter, span } = searchOf(given);
        // The search limit cannot be reached: this is the only search in this process.
        const { rows } = (await new EventSearch(database, Infinity).find({ filter, span, limit }))!;
        if (json) printJson(io, { items: rows.map(describeEvent) });
        else if (rows.length === 0) printText(io, 'No events yet.\n');
        else
          printText(
            io,
            table(
              ['TYPE', 'WEBHOOK', 'RECEIVED', 'FROM', 'BYTES', 'CONTENT TYPE', 'ID'],
              rows.map((row) => [
                row.event_type ?? '',
                row.webhook_id,
                row.received_at,
                row.source_ip,
                String(row.bytes),
                row.content_type ?? '',
                row.id,
              ]),
            ),
          );
      }),
    );

  withFilters(
    command.command('export').description('write stored events as NDJSON with their bodies, or as CSV, newest first'),
  )
    .addOption(new Option('--format <format>', 'ndjson or csv').choices(['ndjson', 'csv']).default('ndjson'))
    .option('--limit <events>', 'maximum number', positive, Number.MAX_SAFE_INTEGER)
    .action(({ format, limit, ...given }: ExportOptions) =>
      withDatabase(io, async ({ database }) => {
        const parts = { database, search: new EventSearch(database, Infinity) };
        const order = { ...searchOf(given), format, bodies: format === 'ndjson' };
        for await (const part of exportText(parts, order, undefined, limit)) await printPart(io, part);
      }),
    );

  command
    .command('import')
    .description(
      'store the events of an archived day, or of an export with bodies, with their ids; they get no deliveries',
    )
    .argument('<file>', 'NDJSON; compressed when the name ends in .gz')
    .option('--json', 'print one JSON document')
    .action((file: string, { json }: Output) =>
      withDatabase(io, async ({ database, settings }) => {
        const days = { retentionDays: settings.RETENTION_DAYS, nowMs: Date.now() };
        const { imported, existing } = await importEvents(database, resolve(io.directory, file), days);
        if (json) printJson(io, { imported, existing });
        else printText(io, `Imported ${imported} events; ${existing} were stored already.\n`);
      }),
    );

  command
    .command('show')
    .description('show one event as text, with control characters escaped')
    .argument('<id>', 'id of the event', uuid)
    .option('--body', 'write only the body, byte for byte')
    .option('--json', 'print one JSON document')
    .action((id: string, { body, json }: Output & { body?: boolean }) =>
      withDatabase(io, async ({ database }) => {
        const event = isTimedId(id) ? await findEvent(database, null, id) : undefined;
        if (event === undefined) throw new CommandError(`no event has the id ${id}; see: weir event list`);
        if (body) return printBytes(io, event.body);
        if (json) return printJson(io, { ...describeEvent(event), body_base64: event.body.toString('base64') });
        printText(io, `${event.headers.toString('utf8')}\n\n${event.body.toString('utf8')}\n`);
      }),
    );

  replayCommand(io, withFilters(command.command('replay')));
}
