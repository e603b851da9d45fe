/** The filters of `weir event list|export|replay`: those of GET /api/v1/events. */
import { type Command, Option } from 'commander';
import { deliveryStates } from '../../../model/events.ts';
import { time } from '../../command/arguments.ts';
import type { Call } from '../call.ts';
import { idOfGiven } from '../lists.ts';

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

type FilterName = keyof typeof parameters;
export type FilterOptions = { [Option in FilterName]?: string };

/** Adds the options of the filters. */
export function withFilters(command: Command): Command {
  return command
    .option('--webhook <webhook>', 'of this webhook, by id or name')
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

export function isFiltered(options: FilterOptions): boolean {
  return Object.keys(parameters).some((name) => options[name as FilterName] !== undefined);
}

/** The query parameters of the given filters, which the API checks. */
export async function queryOfFilters(call: Call, options: FilterOptions): Promise<Record<string, string>> {
  const webhook = await idOfGiven(call, 'webhook', options.webhook);
  const given = Object.entries(parameters).map(([name, parameter]) => [parameter, options[name as FilterName]]);
  const query = Object.fromEntries([...given, ['webhook_id', webhook]]);
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as Record<string, string>;
}
