/** /api/v1/filters. */

import { problem } from '../../../base/http/problem.ts';
import { DAY_MS } from '../../../base/time/durations.ts';
import type { FilterJudge } from '../../../deliver/claims/judge.ts';
import { cellsAway } from '../../../model/cells.ts';
import { eventFilterOf } from '../../../model/event-filter.ts';
import { PartialReads } from '../../../store/cells/partial-reads.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { EventSearch } from '../events/search.ts';
import { done, operation } from '../operation.ts';
import { lastDay, triedSchema, tryFilter, tryInput } from './service.ts';

/** Limit on the events of the last day that are counted. */
const COUNTED_EVENTS_MAX = 100_000;

export function filterOperations({ database, judge }: { database: Database; judge: FilterJudge }) {
  const search = new EventSearch(database);
  return {
    /** Changes nothing. */
    testFilter: operation({
      input: tryInput,
      answers: { 200: triedSchema.extend({ cells_away: cellsAway }) },
      problems: ['webhook_unknown'],
      handle: async ({ input, isGone }) => {
        const reads = new PartialReads(database);
        const tried = await tryFilter(reads, (filters, events) => judge.judge(filters, events), input);
        if (tried === undefined) return problem('webhook_unknown');
        const from = new Date(Date.now() - DAY_MS).toISOString();
        const ofDay = {
          ...eventFilterOf({ webhook_id: input.webhook_id, from }, null, null),
          limit: COUNTED_EVENTS_MAX,
        };
        const counted = await search.count({ ...ofDay, isGone }, reads);
        return done(200, {
          ...tried,
          last_day: counted && lastDay(tried.items, counted, from),
          cells_away: reads.cellsAway,
        });
      },
    }),
  };
}
