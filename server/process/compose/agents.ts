/** The parts of a process that serve agents. */

import { AgentAuth, LastSeen } from '../../auth/agent.ts';
import { Directory } from '../../db/directory.ts';
import { type Agent, readAgents } from '../../db/queries/agents.ts';
import { claimSchema, createClaim } from '../../deliveries/claim.ts';
import { forAgent, forAgentWith } from '../../deliveries/route.ts';
import { createMe, createSession } from '../../deliveries/session.ts';
import { ackSchema, createSettle, extendSchema, nackSchema } from '../../deliveries/settle.ts';
import { ClaimWaiters, CommitNotifier } from '../../deliveries/waiters.ts';
import { ClaimTurns, ClaimWatermarks } from '../../deliveries/watermarks.ts';
import { derivedKeys, PreviousKey } from '../../secrets/keys.ts';
import type { Base } from '../base.ts';

export function composeAgents({ settings, keys, metrics, database, limiter }: Base) {
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
    seen: (agentId, address) => lastSeen.record(agentId, address, Date.now()),
    keys: derivedKeys(keys, 'agent-sessions'),
    previousKey: new PreviousKey(database, keys),
  });
  const watermarks = new ClaimWatermarks();
  const turns = new ClaimTurns();
  const waiters = new ClaimWaiters(database, watermarks);
  const notifier = new CommitNotifier(database, waiters, () => directory.size > 0);
  const attemptsMax = settings.DELIVERY_MAX_ATTEMPTS;
  const settle = createSettle({ database, metrics, attemptsMax });
  metrics.gauge('weir_claims_waiting', () => waiters.size);

  return {
    handlers: {
      agentSession: createSession(auth),
      agentMe: forAgent(auth, createMe(database)),
      claim: forAgentWith(
        auth,
        claimSchema,
        createClaim({ database, metrics, waiters, watermarks, turns, attemptsMax }),
      ),
      ack: forAgentWith(auth, ackSchema, settle.ack),
      nack: forAgentWith(auth, nackSchema, settle.nack),
      extend: forAgentWith(auth, extendSchema, settle.extend),
    },
    auth,
    directory,
    /** Events were committed by this process. */
    committed: () => notifier.committed(),
    /** Events were committed somewhere. */
    arrived: () => waiters.committed(),
    close: () => waiters.close(),
  };
}
