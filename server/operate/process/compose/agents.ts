/** The parts of a process that serve agents: claims, settlements and filters. */
import { policyOf } from '../../../base/ratelimit/limiter.ts';
import { createClaim } from '../../../deliver/claims/claim.ts';
import { CommitNotifier } from '../../../deliver/claims/commit-notifier.ts';
import type { FilterFailed } from '../../../deliver/claims/filtered.ts';
import { FilterJudge } from '../../../deliver/claims/judge.ts';
import { ClaimMarks } from '../../../deliver/claims/marks.ts';
import { createSettle } from '../../../deliver/claims/settle.ts';
import { WaitingClaims } from '../../../deliver/claims/waiting-claims.ts';
import { ownAgentOperations } from '../../../manage/api/agent/own-agent-operations.ts';
import { eventOperations } from '../../../manage/api/events/event-operations.ts';
import { filterOperations } from '../../../manage/api/filters/filter-operations.ts';
import { AgentAuth, LastSeen } from '../../../manage/auth/agent.ts';
import { Directory } from '../../../store/directory.ts';
import { type ActiveAgent, readAgents } from '../../../store/queries/agents/active-agents.ts';
import { addFilterFailures, type FilterFailures } from '../../../store/queries/agents/filters.ts';
import { addAgentHistory } from '../../../store/queries/agents/history.ts';
import { derivedKeys, PreviousKey } from '../../../store/secrets/keys.ts';
import { WriteBehind } from '../../../store/write-behind.ts';
import type { Base } from '../base.ts';
import { AgentCounts, type LatencyCounts } from '../counts.ts';

/** Builds these parts. @param filterWorkerFile compiled workers/filter.js */
export function composeAgents(base: Base, filterWorkerFile: string, latency: LatencyCounts) {
  const { settings, keys, metrics, database, cells, limiter, log } = base;
  const filters = composeFilters(base, filterWorkerFile);
  const directory = new Directory<ActiveAgent>((ids, rowsMax) => readAgents(database, ids, rowsMax));
  const lastSeen = new LastSeen(database);
  const auth = new AgentAuth({
    database,
    agents: directory,
    limiter,
    policy: policyOf('AGENT_AUTH', settings),
    seen: (agentId, address, byPrevious) => lastSeen.record(agentId, address, performance.now(), byPrevious),
    keys: derivedKeys(keys, 'agent-sessions'),
    previousKey: new PreviousKey(database, keys),
  });
  const marks = new ClaimMarks();
  const waiting = new WaitingClaims(database, marks);
  const notifier = new CommitNotifier(database, waiting, () => directory.size > 0);
  const counts = new AgentCounts((rows) => addAgentHistory(database, rows));
  const attemptsMax = settings.DELIVERY_MAX_ATTEMPTS;
  const settlements = createSettle({
    database,
    metrics: counts.ofSettlements(metrics),
    freed: (agentId) => notifier.concerns(agentId),
    onAcknowledged: (agentId, acknowledged) => latency.acknowledged(agentId, acknowledged),
    attemptsMax,
  });
  const claim = createClaim({
    database,
    agents: directory,
    cells,
    waiting,
    marks,
    settlements,
    metrics: counts.ofClaims(metrics),
    attemptsMax,
    judge: filters.judge,
    onClaimed: (agentId, claimed) => latency.claimed(agentId, claimed),
    spans: base.spans,
    onFilterFailed: filters.failed,
  });
  metrics.gauge('weir_claims_waiting', () => waiting.size);

  return {
    operations: {
      ...ownAgentOperations({
        database,
        auth,
        claim,
        settlements,
        onOtherClient: (id, release) => log('agent_client_differs', { agent_id: id, client_release: release }),
      }),
      ...filterOperations({ database, judge: filters.tryJudge }),
      ...eventOperations({ database, judge: filters.tryJudge }, settings.CLIENT_UNREAD_SECONDS),
    },
    auth,
    directory,
    /** Call it when this process has stored an event of the webhook. */
    stored: (webhookId: string) => notifier.concerns(webhookId),
    /** Call it for each NOTIFY of any process. @param payload see CommitNotifier.arrived */
    arrived: (payload: string) => notifier.arrived(payload),
    close: () => waiting.close(),
    /** Judges filters outside of claims. */
    tryJudge: filters.tryJudge,
    /** Call it after the last claim was answered. */
    closeLast: () => Promise.all([filters.close(), counts.close()]),
  };
}

/** Number of broken filters remembered as logged. When it is reached, all are forgotten and logged again. */
const LOGGED_MAX = 1_000;

/** Number of tries of a filter that wait for a thread. Each holds the events that it tries in memory. Further tries are undecided. */
const TRIES_WAITING_MAX = 4;

/** The threads that evaluate filters, and what is known of filters that fail. @param workerFile compiled workers/filter.js */
function composeFilters({ settings, database, metrics, log }: Base, workerFile: string) {
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
