/** The filters of `weir event list|export|replay`: those of GET /api/v1/events. */
import { type Command, Option } from 'commander';
import type { z } from 'zod';
import { check } from '../../http/issues.ts';
import { eventCountQuery } from '../../resources/event-filter.ts';
import { deliveryStates } from '../../resources/events.ts';
import { time, uuid } from '../arguments.ts';
import { CommandError } from '../io.ts';

/** Options as commander names them, with the query parameter of each. */
const parameters = {
  webhook: 'webhook_id',
  type: 'type',
  deliveryState: 'delivery_state',
  from: 'from',
  to: 'to',
  contentType: 'content_type',
  source: 'source',
  header: 'header',
  search: 'q',
} as const;

export type FilterOptions = { [Option in keyof typeof parameters]?: string };

/** Adds the options of the filters. */
export function withFilters(command: Command): Command {
  return command
    .option('--webhook <id>', 'of this webhook', uuid)
    .option('--type <type>', 'of this type, e.g. issues.opened')
    .addOption(
      new Option('--delivery-state <state>', 'with a delivery in this state; none: without a delivery').choices([
        ...deliveryStates,
        'none',
      ]),
    )
    .option('--from <time>', 'received at or after this time, e.g. 2026-01-31T12:00:00Z', time)
    .option('--to <time>', 'received before this time', time)
    .option('--content-type <prefix>', 'with a content type that begins so, e.g. application/json')
    .option('--source <network>', 'from this address or network, e.g. 192.0.2.0/24')
    .option('--header <text>', 'with this text in the stored header lines, e.g. "x-github-event: push"')
    .option('--search <text>', 'with this text in the body, case-sensitive');
}

/** Checks the values like the API does. Throws CommandError with the option. */
export function filtersOf(options: FilterOptions): z.output<typeof eventCountQuery> {
  const names = Object.keys(parameters) as (keyof typeof parameters)[];
  const given = names.flatMap((name) => (options[name] === undefined ? [] : [[parameters[name], options[name]]]));
  const checked = check(eventCountQuery, Object.fromEntries(given));
  if ('data' in checked) return checked.data;
  const { path, detail } = checked.issues[0]!;
  const option = names.find((name) => parameters[name] === path[0])!;
  throw new CommandError(`--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}: ${detail}`, 2);
}
