import { advisoryLocks } from '../advisory-locks.ts';
import type { Query } from '../pool.ts';
import { isoColumn } from './sql.ts';

/** An agent as the API shows it, without its credential. */
export interface AgentRecord {
  id: string;
  name: string;
  /** Permanent. */
  revoked: boolean;
  /** Subscribed webhooks that are not deleted. */
  webhook_ids: string[];
  created_at: string;
  updated_at: string;
}

export interface AgentFilter {
  revoked: boolean | null;
  /** Substring of the name, case-insensitive. */
  contains: string | null;
}

const record = `
  a.id, a.name, a.revoked_at is not null as revoked, ${isoColumn('a.created_at')}, ${isoColumn('a.updated_at')},
  (select coalesce(json_agg(w.id order by w.created_at, w.id), '[]') from subscriptions s join webhooks w on w.id = s.webhook_id
    where s.agent_id = a.id and w.deleted_at is null) as webhook_ids`;

/** Finds an agent, revoked or not. */
export async function findAgent(query: Query, id: string): Promise<AgentRecord | undefined> {
  const [row] = await query<AgentRecord>({ text: `select ${record} from agents a where a.id = $1`, values: [id] });
  return row;
}

/** Lists agents, newest first. `before`: id of the last agent of the previous page. Null limit: all. */
export function listAgents(
  { query }: { query: Query },
  { revoked, contains }: AgentFilter,
  before: string | null,
  limit: number | null,
): Promise<AgentRecord[]> {
  return query<AgentRecord>({
    text: `
      select ${record}
      from agents a
      where ($1::boolean is null or (a.revoked_at is not null) = $1)
        and ($2::text is null or strpos(lower(a.name), lower($2)) > 0)
        and ($3::uuid is null or (a.created_at, a.id) < (select l.created_at, l.id from agents l where l.id = $3))
      order by a.created_at desc, a.id desc
      limit $4`,
    values: [revoked, contains, before, limit],
  });
}

/** Locks the agent against changes until the transaction ends. Returns false when there is no active agent with this id. */
export async function lockAgent(query: Query, id: string): Promise<boolean> {
  const rows = await query({
    text: 'select 1 from agents where id = $1 and revoked_at is null for no key update',
    values: [id],
  });
  return rows.length > 0;
}

/** Whether an active agent other than `id` has this name. Locks agent names until the transaction ends. */
export async function isNameTaken(query: Query, name: string, id: string): Promise<boolean> {
  await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.agentNames] });
  const rows = await query({
    text: 'select 1 from agents where name = $1 and id <> $2 and revoked_at is null limit 1',
    values: [name, id],
  });
  return rows.length > 0;
}

/** Inserts an agent with the look-up id and the hash of its credential. */
export async function insertAgent(
  query: Query,
  agent: { id: string; name: string; lookupId: string; secretHash: Buffer },
): Promise<void> {
  await query({
    text: 'insert into agents (id, name, lookup_id, secret_hash) values ($1, $2, $3, $4)',
    values: [agent.id, agent.name, agent.lookupId, agent.secretHash],
  });
}

/** Sets the name, if given, and updated_at. */
export async function updateAgent(query: Query, id: string, name: string | null): Promise<void> {
  await query({
    text: 'update agents set name = coalesce($2, name), updated_at = now() where id = $1',
    values: [id, name],
  });
}

/** Replaces the credential; the old credential and all sessions become invalid. */
export async function replaceCredential(
  query: Query,
  id: string,
  { lookupId, secretHash }: { lookupId: string; secretHash: Buffer },
): Promise<void> {
  await query({
    text: `update agents set lookup_id = $2, secret_hash = $3, generation = generation + 1, updated_at = now() where id = $1`,
    values: [id, lookupId, secretHash],
  });
}

/** Invalidates the agent's credential and sessions permanently; its deliveries are kept. */
export async function revokeAgent(query: Query, id: string): Promise<void> {
  await query({
    text: 'update agents set revoked_at = now(), generation = generation + 1, updated_at = now() where id = $1',
    values: [id],
  });
}
