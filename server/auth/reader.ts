/** Who reads on mixed routes: a user or, where none is signed in, an agent, who sees only its own. */
import type { Agent } from '../db/queries/read-agents.ts';
import type { Exchange } from '../http/exchange.ts';
import type { AgentAuth } from './agent.ts';

export type Reader = { kind: 'agent'; agent: Agent };

/** The reader of a request; null when it is refused, and then the exchange is answered. */
export type ResolveReader = (exchange: Exchange) => Promise<Reader | null>;

/** The agent bearer is looked at last, and every such request counts in the agent limit: no path is unthrottled. */
export function createReaderResolver(auth: AgentAuth): ResolveReader {
  return async (exchange) => {
    const agent = await auth.fallback(exchange);
    return agent === null ? null : { kind: 'agent', agent };
  };
}
