/** /api/v1/filters. */

import { problem } from '../../../base/http/problem.ts';
import type { FilterJudge } from '../../../deliver/claims/judge.ts';
import type { Database } from '../../../store/pool.ts';
import { done, operation } from '../operation.ts';
import { triedSchema, tryFilter, tryInput } from './service.ts';

export function filterOperations({ database, judge }: { database: Database; judge: FilterJudge }) {
  return {
    /** Changes nothing. */
    testFilter: operation({
      input: tryInput,
      answers: { 200: triedSchema },
      problems: ['webhook_unknown'],
      handle: async ({ input }) => {
        const tried = await tryFilter(database, (filters, events) => judge.judge(filters, events), input);
        return tried === undefined ? problem('webhook_unknown') : done(200, tried);
      },
    }),
  };
}
