/** /api/v1/filters. */

import { problem } from '../../../base/http/problem.ts';
import type { FilterJudge } from '../../../deliver/claims/judge.ts';
import type { Database } from '../../../store/pool.ts';
import { previewFilter } from '../events/replay-preview.ts';
import { EventSearch } from '../events/search.ts';
import { done, operation } from '../operation.ts';
import { triedSchema, tryFilter, tryInput } from './service.ts';

const DAY_MS = 86_400_000;

export function filterOperations({ database, judge }: { database: Database; judge: FilterJudge }) {
  const search = new EventSearch(database);
  return {
    /** Changes nothing. */
    testFilter: operation({
      input: tryInput,
      answers: { 200: triedSchema },
      problems: ['webhook_unknown'],
      handle: async ({ input }) => {
        const tried = await tryFilter(database, (filters, events) => judge.judge(filters, events), input);
        if (tried === undefined) return problem('webhook_unknown');
        const from = new Date(Date.now() - DAY_MS).toISOString();
        const last_day = await previewFilter({ database, judge, search }, input.webhook_id, input.filter, from);
        return done(200, { ...tried, last_day });
      },
    }),
  };
}
