/** The parts of a process that serve agents. */

import { AgentAuth } from '../../auth/agent.ts';
import { Directory } from '../../db/directory.ts';
import { type Agent, readAgents } from '../../db/queries/agents.ts';
import { Arrivals } from '../../deliveries/arrivals.ts';
import { claimSchema, createClaim } from '../../deliveries/claim.ts';
import { Floors } from '../../deliveries/floors.ts';
import { ArrivalNotice } from '../../deliveries/notice.ts';
import { forAgent, forAgentWith } from '../../deliveries/route.ts';
import { createMe, createSession } from '../../deliveries/session.ts';
import { ackSchema, createSettle, extendSchema, nackSchema } from '../../deliveries/settle.ts';
import { Sightings } from '../../deliveries/sightings.ts';
import { Turns } from '../../deliveries/turns.ts';
import { derivedKeys } from '../../secrets/keys.ts';
import { PreviousKey } from '../../secrets/previous-key.ts';
import type { Base } from '../base.ts';

export function composeAgents({ settings, keys, metrics, database, limiter }: Base) {
  const directory = new Directory<Agent>((ids, rowsMax) => readAgents(database, ids, rowsMax));
  const sightings = new Sightings(database);
  const auth = new AgentAuth({
    database,
    agents: directory,
    limiter,
    policy: {
      name: 'agent-auth',
      max: settings.RATE_LIMIT_AGENT_AUTH_MAX,
      windowSeconds: settings.RATE_LIMIT_AGENT_AUTH_WINDOW_SECONDS,
    },
    seen: (agentId, address) => sightings.note(agentId, address, Date.now()),
    keys: derivedKeys(keys, 'agent-sessions'),
    previousKey: new PreviousKey(database, keys),
  });
  const floors = new Floors();
  const turns = new Turns();
  const arrivals = new Arrivals(database, floors);
  const notice = new ArrivalNotice(database, arrivals, () => directory.size > 0);
  const attemptsMax = settings.DELIVERY_MAX_ATTEMPTS;
  const settle = createSettle({ database, metrics, attemptsMax });
  metrics.gauge('weir_claims_waiting', () => arrivals.size);

  return {
    handlers: {
      agentSession: createSession(auth),
      agentMe: forAgent(auth, createMe(database)),
      claim: forAgentWith(auth, claimSchema, createClaim({ database, metrics, arrivals, floors, turns, attemptsMax })),
      ack: forAgentWith(auth, ackSchema, settle.ack),
      nack: forAgentWith(auth, nackSchema, settle.nack),
      extend: forAgentWith(auth, extendSchema, settle.extend),
    },
    auth,
    directory,
    /** Events were committed by this process. */
    committed: () => notice.committed(),
    /** Events were committed somewhere. */
    arrived: () => arrivals.heard(),
    close: () => arrivals.close(),
  };
}
