import type { Database } from '../pool.ts';
import { arrayOf } from './sql.ts';

/** An agent that is not revoked. A session is valid while its generation equals the agent's. */
export interface Agent {
  readonly id: string;
  readonly name: string;
  readonly generation: number;
}

/** Reads the agents with these ids (null: the newest agents); unknown and revoked ones are omitted. */
export function readAgents(
  database: Pick<Database, 'query'>,
  ids: readonly string[] | null,
  rowsMax: number,
): Promise<Agent[]> {
  return database.query<Agent>({
    name: 'read-agents',
    text: `
      select id, name, generation
      from agents
      where ($1::uuid[] is null or id = any ($1)) and revoked_at is null
      order by created_at desc
      limit $2`,
    values: [ids && arrayOf(ids), rowsMax],
  });
}

/** Finds the agent of a credential and the hash of its secret part, with one index probe. */
export async function findAgentByLookupId(
  database: Database,
  lookupId: string,
): Promise<(Agent & { secretHash: Buffer }) | undefined> {
  const [row] = await database.query<Agent & { secretHash: Buffer }>({
    name: 'agent-by-lookup-id',
    text: `
      select id, name, generation, secret_hash as "secretHash"
      from agents
      where lookup_id = $1 and revoked_at is null`,
    values: [lookupId],
  });
  return row;
}

/** Reads names: active agents first, oldest first. */
export function readAgentNames(
  database: Pick<Database, 'query'>,
  rowsMax: number,
): Promise<{ id: string; name: string }[]> {
  return database.query({
    text: 'select id, name from agents order by revoked_at is not null, created_at, id limit $1',
    values: [rowsMax],
  });
}
