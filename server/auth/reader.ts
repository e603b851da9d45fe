/** The reader on a mixed route: a user or, without one, an agent, which sees only its own deliveries and data. */
import type { Agent } from '../db/queries/agents.ts';
import type { Person } from './person.ts';

export type Reader = { kind: 'user'; person: Person } | { kind: 'agent'; agent: Agent };

/** The agent to whose own data the result is restricted; null: no restriction. */
export function agentIdOf(reader: Reader): string | null {
  return reader.kind === 'agent' ? reader.agent.id : null;
}
