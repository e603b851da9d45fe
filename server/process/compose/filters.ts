/** The threads that evaluate filters, and what is known of filters that fail. */
import { addFilterFailures, type FilterFailures } from '../../db/queries/filter-deliveries.ts';
import type { FilterFailed } from '../../deliveries/sift.ts';
import { FilterJudge } from '../../filters/judge.ts';
import { WriteBehind } from '../../ingest/write-behind.ts';
import type { Base } from '../base.ts';

/** Broken filters that were logged. At this number all are forgotten, and logged again. */
const LOGGED_MAX = 1_000;

/** Tries of a filter that wait for their thread. Each holds the events that it tries in memory. Further ones are undecided. */
const TRIES_WAITING_MAX = 4;

/** @param workerFile compiled workers/filter.js */
export function composeFilters({ settings, database, metrics, log }: Base, workerFile: string) {
  const judge = new FilterJudge(workerFile, settings.FILTER_TIMEOUT_MS);
  // A thread of its own: claims do not wait for tries of slow expressions.
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
      // The next claim would ask it again.
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
