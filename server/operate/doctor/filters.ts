/** Checks that the filters of subscriptions are valid in this version and not suspended. */

import { type Check, ok, problem } from '../../model/check.ts';
import { filterProblem } from '../../model/filters/expression.ts';
import type { Database } from '../../store/connect/pool.ts';
import { readFilters } from '../../store/queries/events/filter.ts';

/** Filters compiled by one run. */
const FILTERS_MAX = 10_000;

export async function checkFilters(database: Database): Promise<Check[]> {
  const filters = await readFilters(database, null, FILTERS_MAX);
  if (filters.length === 0) return [];
  const broken = filters.flatMap((one) => {
    const fault = filterProblem(one.filter);
    if (fault !== null) return [{ ...one, detail: `not valid in this version (${fault})` }];
    return one.suspendedUntil === null
      ? []
      : [{ ...one, detail: `suspended until ${one.suspendedUntil} (it took too long on several events)` }];
  });
  const [first] = broken;
  if (first === undefined) return [ok('filters', `${filters.length} filters of subscriptions are valid`)];
  const others = broken.length === 1 ? '' : `, and ${broken.length - 1} more filters`;
  return [
    problem(
      'filters',
      `the filter of agent ${first.agentName} on webhook ${first.webhookName} is ${first.detail}${others}; all events are delivered`,
      `change it on the page of the agent, or: weir agent subscribe ${first.agentId} --webhook ${first.webhookId} --filter EXPRESSION`,
    ),
  ];
}
