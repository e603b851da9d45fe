/** The end of temporary agents, which `weir listen` creates: expiry by the time of the last request, then removal with the deliveries. */
import { TEMPORARY_AGENT_SECONDS } from '../../model/agents.ts';
import { record, systemActor } from '../../store/audit/record.ts';
import type { Database } from '../../store/connect/pool.ts';
import { findAgent, revokeAgent } from '../../store/queries/agents/agents.ts';
import { lockExpiredAgent, removeRevokedAgent } from '../../store/queries/agents/temporary.ts';

/** Revokes temporary agents that were not seen for TEMPORARY_AGENT_SECONDS, each with an audit entry. Returns how many. */
export async function expireTemporaryAgents(database: Database, nowMs: number): Promise<number> {
  const beforeMs = nowMs - TEMPORARY_AGENT_SECONDS * 1000;
  for (let expired = 0; ; expired++) {
    const found = await database.transaction(async (query) => {
      const id = await lockExpiredAgent(query, beforeMs);
      if (id === undefined) return false;
      const before = (await findAgent(query, id))!;
      await revokeAgent(query, id);
      await record(query, systemActor, {
        action: 'agent.expire',
        target: { kind: 'agent', id, name: before.name },
        before,
      });
      return true;
    });
    if (!found) return expired;
  }
}

/** Deletes revoked temporary agents and all their deliveries, batch by batch, until none is left or `stopped` returns true. */
export async function removeTemporaryAgents(database: Database, nowMs: number, stopped: () => boolean): Promise<void> {
  while ((await removeRevokedAgent(database, nowMs)) && !stopped());
}
