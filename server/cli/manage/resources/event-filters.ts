/** The filters of `weir event list|export|replay`: those of GET /api/v1/events. */
import { Option } from 'commander';
import { deliveryStates } from '../../../model/events.ts';
import { time } from '../../command/arguments.ts';
import type { Call } from '../call.ts';
import { idOfGiven } from '../lists.ts';
import type { OptionRow } from '../row.ts';

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

const states = [...deliveryStates, 'none'];

export const filterOptions: readonly (OptionRow | Option)[] = [
  ['--webhook <webhook>', 'of this webhook, by id or name'],
  ['--type <type>', 'of this type, e.g. issues.opened'],
  new Option('--delivery-state <state>', 'with a delivery in this state; none: without a delivery').choices(states),
  ['--from <time>', 'received at or after this time, e.g. 2026-01-31T12:00:00Z', time],
  ['--to <time>', 'received before this time', time],
  ['--content-type <prefix>', 'with a content type that begins so, e.g. application/json'],
  ['--source <network>', 'from this address or network, e.g. 192.0.2.0/24'],
  ['--header <text>', 'with this text in the stored header lines, e.g. "x-github-event: push"'],
  ['--search <text>', 'with this text in the body, case-sensitive'],
];

/** Whether at least one filter is given. */
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
