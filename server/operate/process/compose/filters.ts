/** The threads that evaluate filters, and what is known of filters that fail. */

import type { FilterFailed } from '../../../deliver/claims/filtered.ts';
import { FilterJudge } from '../../../deliver/claims/judge.ts';
import { addFilterFailures, type FilterFailures } from '../../../store/queries/agents/filter-failures.ts';
import { WriteBehind } from '../../../store/write-behind.ts';
import type { Base } from '../base.ts';

/** Number of broken filters remembered as logged. When it is reached, all are forgotten and logged again. */
const LOGGED_MAX = 1_000;

/** Number of tries of a filter that wait for a thread. Each holds the events that it tries in memory. Further tries are undecided. */
const TRIES_WAITING_MAX = 4;

/** @param workerFile compiled workers/filter.js */
export function composeFilters({ settings, database, metrics, log }: Base, workerFile: string) {
  const judge = new FilterJudge(workerFile, settings.FILTER_TIMEOUT_MS);
  // Tries have their own thread, so that claims do not wait for slow expressions.
  const tryJudge = new FilterJudge(workerFile, settings.FILTER_TIMEOUT_MS, {
    queueMax: TRIES_WAITING_MAX,
    threadsMax: 1,
  });
  const failures = new WriteBehind<FilterFailures>(
    async (counted) => {
      for (const { agentId, webhookId, until } of await addFilterFailures(database, counted.values()))
        log('filter_suspended', { agent_id: agentId, webhook_id: webhookId, until });
    },
    (one, other) => ({ ...other, events: one.events + other.events, slow: one.slow + other.slow }),
  );
  const logged = new Set<string>();
  return {
    judge,
    tryJudge,
    failed: (agentId: string, { webhookId, filter, events, slow, reason, broken }: FilterFailed) => {
      metrics.filterFailed(agentId, events);
      const key = `${agentId} ${webhookId} ${filter}`;
      failures.note(key, { agentId, webhookId, filter, events, slow, reason });
      // Store the failure at once: the next claim would evaluate the filter again.
      if (slow > 0) void failures.flush();
      if (!broken || logged.has(key)) return;
      if (logged.size >= LOGGED_MAX) logged.clear();
      logged.add(key);
      log('filter_broken', { agent_id: agentId, webhook_id: webhookId, reason });
    },
    close: async () => {
      await Promise.all([judge.close(), tryJudge.close(), failures.close()]);
    },
  };
}
