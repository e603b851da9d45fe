/** Agents: management. */
import type { z } from 'zod';
import { agentSchema, FIRST_WEBHOOKS } from '../../../model/agents.ts';
import type { Queries, Query } from '../../connect/pool.ts';
import { arrayOf, isoText, rowsNamed, selectList } from '../../sql.ts';
import { lockAgents } from './subscriptions.ts';

/** An agent as the API shows it, without its credential. */
export type AgentRecord = z.output<typeof agentSchema>;

const subscribed =
  'from subscriptions s join webhooks w on w.id = s.webhook_id where s.agent_id = a.id and w.deleted_at is null';
const record = selectList(agentSchema, 'a', {
  revoked: 'a.revoked_at is not null',
  paused: 'a.paused_at is not null',
  previous_credential_expires_at: `(select ${isoText('a.previous_expires_at')}
    where a.previous_generation = a.generation - 1 and a.previous_expires_at > now())`,
  // Counts subscriptions in the index, and subtracts those to deleted webhooks: a look at each of 10,000 webhooks took 15 ms.
  webhooks: `((select count(*) from subscriptions s where s.agent_id = a.id) - (select count(*)
    from subscriptions s join webhooks w on w.id = s.webhook_id where s.agent_id = a.id and w.deleted_at is not null))::int`,
  filters: `(select count(*)::int ${subscribed} and s.filter is not null)`,
  first_webhook_ids: `(select coalesce(json_agg(webhook_id), '[]') from (
    select s.webhook_id ${subscribed} order by s.webhook_id limit ${FIRST_WEBHOOKS}) first)`,
});

/** SQL condition: not a revoked temporary agent, which maintenance deletes. */
const isShown = 'not (a.temporary and a.revoked_at is not null)';

/** Finds an agent, revoked or not; a temporary one only until it is revoked. */
export async function findAgent(query: Query, id: string): Promise<AgentRecord | undefined> {
  const [row] = await query<AgentRecord>({
    text: `select ${record} from agents a where a.id = $1 and ${isShown}`,
    values: [id],
  });
  return row;
}

/** Lists agents, newest first. `before`: id of the last agent of the previous page. Null limit: all. */
export function listAgents(
  { query }: Queries,
  { revoked, contains }: { revoked: boolean | null; contains: string | null },
  before: string | null,
  limit: number | null,
): Promise<AgentRecord[]> {
  const values: unknown[] = [limit, ...(before === null ? [] : [before])];
  return query<AgentRecord>({
    text: `
      select ${record}
      from ${contains === null ? 'agents' : rowsNamed('agents', `$${values.push(contains)}`)} a
      where ${isShown} ${revoked === null ? '' : `and a.revoked_at is ${revoked ? 'not ' : ''}null`}
        ${before === null ? '' : 'and (a.created_at, a.id) < ((select l.created_at from agents l where l.id = $2), $2)'}
      order by a.created_at desc, a.id desc
      limit $1`,
    values,
  });
}

/** Locks the agent against changes until the transaction ends. Returns false when there is no active agent with this id. */
export async function lockAgent(query: Query, id: string): Promise<boolean> {
  await lockAgents(query);
  const rows = await query({
    text: 'select 1 from agents where id = $1 and revoked_at is null for no key update',
    values: [id],
  });
  return rows.length > 0;
}

/** Whether an active agent other than `id` has this name. Locks agents until the transaction ends. */
export async function isNameTaken(query: Query, name: string, id: string): Promise<boolean> {
  await lockAgents(query);
  const rows = await query({
    text: 'select 1 from agents where name = $1 and id <> $2 and revoked_at is null limit 1',
    values: [name, id],
  });
  return rows.length > 0;
}

/**
 * Inserts an agent with the look-up id and the hash of its credential, or restores the revoked one that has this id.
 * @returns whether it was restored; null: the id is in use
 */
export async function insertAgent(
  query: Query,
  agent: {
    id: string;
    name: string;
    temporary: boolean;
    maxLeased: number | null;
    paused: boolean;
    lookupId: string;
    secretHash: Buffer;
  },
): Promise<boolean | null> {
  const [row] = await query<{ restored: boolean }>({
    text: `insert into agents as a (id, name, temporary, max_leased, lookup_id, secret_hash, paused_at)
           values ($1, $2, $3, $4, $5, $6, case when $7 then now() end)
           on conflict (id) do update
           set name = excluded.name, max_leased = excluded.max_leased, temporary = excluded.temporary,
             paused_at = excluded.paused_at, lookup_id = excluded.lookup_id, secret_hash = excluded.secret_hash, generation = a.generation + 1, revoked_at = null,
             updated_at = greatest(now(), a.updated_at + interval '1 ms')
           where a.revoked_at is not null and not a.temporary
           returning generation > 1 as restored`,
    values: [agent.id, agent.name, agent.temporary, agent.maxLeased, agent.lookupId, agent.secretHash, agent.paused],
  });
  return row?.restored ?? null;
}

/** SQL assignment: the entity tag of the agent is different after each change, also after two of one millisecond. */
const touched = `updated_at = greatest(now(), updated_at + interval '1 ms')`;

/** Renews the entity tags of agents whose subscriptions a webhook changed. Locks the rows in the order of their ids, as recordAgentsSeen(). */
export async function touchAgents(query: Query, ids: readonly string[]): Promise<void> {
  await query({
    text: `with locked as (select id from agents where id = any ($1::uuid[]) order by id for no key update)
           update agents a set ${touched} from locked where a.id = locked.id`,
    values: [arrayOf(ids)],
  });
}

/** Sets the given members, and updated_at. @param maxLeased null: no limit; undefined: unchanged */
export async function updateAgent(
  query: Query,
  id: string,
  {
    name,
    maxLeased,
    paused,
  }: { name?: string | undefined; maxLeased?: number | null | undefined; paused?: boolean | undefined },
): Promise<void> {
  await query({
    text: `update agents set name = coalesce($2, name), max_leased = case when $3 then $4::integer else max_leased end,
             paused_at = case when $5::boolean then coalesce(paused_at, now()) when not $5 then null else paused_at end, ${touched}
           where id = $1`,
    values: [id, name ?? null, maxLeased !== undefined, maxLeased ?? null, paused ?? null],
  });
}

/** Replaces the credential. The old one and its sessions stay valid for `overlapSeconds`; any earlier one ends. */
export async function replaceCredential(
  query: Query,
  id: string,
  { lookupId, secretHash }: { lookupId: string; secretHash: Buffer },
  overlapSeconds: number,
): Promise<void> {
  const [previous, values] =
    overlapSeconds === 0
      ? [noPrevious, []]
      : [
          `previous_lookup_id = lookup_id, previous_secret_hash = secret_hash, previous_generation = generation,
           previous_expires_at = now() + make_interval(secs => $4), previous_used_at = null`,
          [overlapSeconds],
        ];
  await query({
    text: `update agents set lookup_id = $2, secret_hash = $3, generation = generation + 1, ${touched}, ${previous}
           where id = $1`,
    values: [id, lookupId, secretHash, ...values],
  });
}

const noPrevious = `previous_lookup_id = null, previous_secret_hash = null, previous_generation = null,
  previous_expires_at = null, previous_used_at = null`;

/** Invalidates the agent's credentials and sessions permanently; its deliveries are kept, those of a temporary agent until maintenance. */
export async function revokeAgent(query: Query, id: string): Promise<void> {
  await query({
    text: `update agents set revoked_at = now(), generation = generation + 1, ${touched}, ${noPrevious} where id = $1`,
    values: [id],
  });
}

/** Reads names: active agents first, oldest first. Temporary agents are left out. */
export function readAgentNames({ query }: Queries, rowsMax: number): Promise<{ id: string; name: string }[]> {
  return query({
    text: 'select id, name from agents where not temporary order by revoked_at is not null, created_at, id limit $1',
    values: [rowsMax],
  });
}
