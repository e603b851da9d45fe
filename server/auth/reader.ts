/** Who reads on mixed routes: a user or, where none is signed in, an agent, who sees only its own. */
import type { Agent } from '../db/queries/read-agents.ts';
import type { Person } from './person.ts';

export type Reader = { kind: 'user'; person: Person } | { kind: 'agent'; agent: Agent };

/** The agent whose own alone are shown; null: everything. */
export function agentIdOf(reader: Reader): string | null {
  return reader.kind === 'agent' ? reader.agent.id : null;
}
