import { join } from 'node:path';
import type { Command } from 'commander';
import { TRIED_EVENTS_MAX, type Tried, tryFilter, tryInput } from '../api/filters/service.ts';
import { checked } from '../api/input.ts';
import type { Database } from '../db/pool.ts';
import { builtFile } from '../files/build.ts';
import { FilterJudge } from '../filters/judge.ts';
import { uuid, wholeNumber } from './arguments.ts';
import { CommandError, type CommandIo, printJson, printText, table } from './io.ts';
import { withDatabase, withInput } from './session.ts';

interface TestOptions {
  webhook: string;
  filter: string;
  events?: number;
  json?: boolean;
}

/** `weir filter test`. */
export function defineFilter(command: Command, io: CommandIo): void {
  command
    .command('test')
    .description('show which of the newest events of a webhook a filter would deliver; changes nothing')
    .requiredOption('--webhook <id>', 'id of the webhook', uuid)
    .requiredOption('--filter <expression>', 'CEL expression, as in weir agent subscribe')
    .option('--events <number>', 'number of events', wholeNumber('--events', TRIED_EVENTS_MAX))
    .option('--json', 'print one JSON document')
    .action(({ webhook, filter, events, json }: TestOptions) =>
      withDatabase(io, ({ database, settings }) =>
        withInput(async () => {
          const input = checked(tryInput, { webhook_id: webhook, filter, events });
          const tried = await tryOnce(io, database, settings.FILTER_TIMEOUT_MS, input);
          if (tried === undefined) throw new CommandError(`no webhook has the id ${webhook}; see: weir webhook list`);
          if (json) printJson(io, tried);
          else print(io, tried);
        }),
      ),
    );
}

/** In a thread under the time limit of the server, so that the verdicts are those of the server. */
async function tryOnce(
  { workers = builtFile('workers') }: CommandIo,
  database: Database,
  timeoutMs: number,
  input: Parameters<typeof tryFilter>[2],
): Promise<Tried | undefined> {
  const judge = new FilterJudge(join(workers, 'filter.js'), timeoutMs);
  try {
    return await tryFilter(database, (filters, events) => judge.judge(filters, events), input);
  } finally {
    await judge.close();
  }
}

function print(io: CommandIo, { items, passed, filtered, failed, undecided }: Tried): void {
  if (items.length === 0) return printText(io, 'The webhook has no events yet.\n');
  printText(
    io,
    table(
      ['EVENT', 'RECEIVED', 'TYPE', 'VERDICT', 'REASON'],
      items.map((one) => [one.event_id, one.received_at, one.event_type ?? '', one.verdict, one.reason ?? '']),
    ),
  );
  const leftOut = undecided === 0 ? '' : ` ${undecided} left out: the filter took too long on others.`;
  printText(io, `\n${passed} passed, ${filtered} filtered, ${failed} failed (they would be delivered).${leftOut}\n`);
}
