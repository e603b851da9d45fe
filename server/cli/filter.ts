import { Command } from 'commander';
import { type Judge, TRIED_EVENTS_MAX, type Tried, tryFilter, tryInput } from '../api/filters/service.ts';
import { checked } from '../api/input.ts';
import { judgeEvent } from '../filters/evaluate.ts';
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
export function filterCommand(io: CommandIo): Command {
  const command = new Command('filter').description('try filters of subscriptions');
  command
    .command('test')
    .description('show which of the newest events of a webhook a filter would deliver; changes nothing')
    .requiredOption('--webhook <id>', 'id of the webhook', uuid)
    .requiredOption('--filter <expression>', 'CEL expression, as in weir agent subscribe')
    .option('--events <number>', 'number of events', wholeNumber('--events', TRIED_EVENTS_MAX))
    .option('--json', 'print one JSON document')
    .action(({ webhook, filter, events, json }: TestOptions) =>
      withDatabase(io, ({ database }) =>
        withInput(async () => {
          const tried = await tryFilter(
            database,
            judgeHere,
            checked(tryInput, { webhook_id: webhook, filter, events }),
          );
          if (tried === undefined) throw new CommandError(`no webhook has the id ${webhook}; see: weir webhook list`);
          if (json) printJson(io, tried);
          else print(io, tried);
        }),
      ),
    );
  return command;
}

/** Without a thread: a command can be interrupted. */
const judgeHere: Judge = async (filters, events) => {
  const judged = events.map((event) => judgeEvent(filters[event.filter]!, event));
  const failures = judged.flatMap(({ failure }, filter) => (failure === null ? [] : [{ filter, reason: failure }]));
  return { verdicts: judged.map(({ verdict }) => verdict), failures };
};

function print(io: CommandIo, { items, passed, filtered, failed }: Tried): void {
  if (items.length === 0) return printText(io, 'The webhook has no events yet.\n');
  printText(
    io,
    table(
      ['EVENT', 'RECEIVED', 'TYPE', 'VERDICT', 'REASON'],
      items.map((one) => [one.event_id, one.received_at, one.event_type ?? '', one.verdict, one.reason ?? '']),
    ),
  );
  printText(io, `\n${passed} passed, ${filtered} filtered, ${failed} failed (they would be delivered).\n`);
}
