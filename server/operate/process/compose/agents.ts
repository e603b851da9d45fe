/** The parts of a process that serve agents. */

import { createClaim } from '../../../deliver/claims/claim.ts';
import { CommitNotifier } from '../../../deliver/claims/commit-notifier.ts';
import { ClaimMarks } from '../../../deliver/claims/marks.ts';
import { createSettle } from '../../../deliver/claims/settle.ts';
import { WaitingClaims } from '../../../deliver/claims/waiting-claims.ts';
import { ownAgentOperations } from '../../../manage/api/agent/operations.ts';
import { eventOperations } from '../../../manage/api/events/operations.ts';
import { filterOperations } from '../../../manage/api/filters/operations.ts';
import { AgentAuth, LastSeen } from '../../../manage/auth/agent.ts';
import { Directory } from '../../../store/directory.ts';
import { type Agent, readAgents } from '../../../store/queries/agents/agents.ts';
import { addAgentHistory } from '../../../store/queries/agents/history.ts';
import { derivedKeys, PreviousKey } from '../../../store/secrets/keys.ts';
import { AgentCounts } from '../agent-counts.ts';
import type { Base } from '../base.ts';
import type { LatencyCounts } from '../latency-counts.ts';
import { composeFilters } from './filters.ts';

/** @param filterWorkerFile compiled workers/filter.js */
export function composeAgents(base: Base, filterWorkerFile: string, latency: LatencyCounts) {
  const { settings, keys, metrics, database, cells, limiter, log } = base;
  const filters = composeFilters(base, filterWorkerFile);
  const directory = new Directory<Agent>((ids, rowsMax) => readAgents(database, ids, rowsMax));
  const lastSeen = new LastSeen(database);
  const auth = new AgentAuth({
    database,
    agents: directory,
    limiter,
    policy: {
      name: 'agent-auth',
      max: settings.RATE_LIMIT_AGENT_AUTH_MAX,
      windowSeconds: settings.RATE_LIMIT_AGENT_AUTH_WINDOW_SECONDS,
    },
    seen: (agentId, address, byPrevious) => lastSeen.record(agentId, address, Date.now(), byPrevious),
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
    /** Call it when any process has notified the others. @param payload of its notifier */
    arrived: (payload: string) => notifier.arrived(payload),
    close: () => waiting.close(),
    /** Judges filters outside of claims. */
    tryJudge: filters.tryJudge,
    /** Call it after the last claim was answered. */
    closeLast: () => Promise.all([filters.close(), counts.close()]),
  };
}
