import type { Database } from '../pool.ts';

type Query = Database['query'];

/** An agent as people see it; never its credential. */
export interface AgentRecord {
  id: string;
  name: string;
  revoked: boolean;
  webhook_ids: string[];
  created_at: string;
}

/** One agent, or all, oldest first; revoked ones too. */
export function listAgents({ query }: { query: Query }, id: string | null): Promise<AgentRecord[]> {
  return query<AgentRecord>({
    text: `
      select a.id, a.name, a.revoked_at is not null as revoked,
        to_char(a.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at,
        (select coalesce(json_agg(s.webhook_id order by s.created_at), '[]') from subscriptions s where s.agent_id = a.id) as webhook_ids
      from agents a
      where $1::uuid is null or a.id = $1
      order by a.created_at, a.id`,
    values: [id],
  });
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

/** A new credential; the old one and every session end. False when there is no such agent, or it is revoked. */
export async function replaceCredential(
  query: Query,
  id: string,
  { lookupId, secretHash }: { lookupId: string; secretHash: Buffer },
): Promise<boolean> {
  const rows = await query({
    text: `update agents set lookup_id = $2, secret_hash = $3, generation = generation + 1, updated_at = now()
           where id = $1 and revoked_at is null returning id`,
    values: [id, lookupId, secretHash],
  });
  return rows.length > 0;
}

/** Ends the agent's credential and sessions for good; its deliveries stay. False when there is no such agent in force. */
export async function revokeAgent(query: Query, id: string): Promise<boolean> {
  const rows = await query({
    text: `update agents set revoked_at = now(), generation = generation + 1, updated_at = now()
           where id = $1 and revoked_at is null returning id`,
    values: [id],
  });
  return rows.length > 0;
}

/** Subscribes; what is so already stays so. Returns those of the webhooks and agents that do not exist. */
export async function subscribe(
  query: Query,
  pairs: readonly { webhookId: string; agentId: string }[],
): Promise<{ webhookIds: string[]; agentIds: string[] }> {
  const array = (ids: readonly string[]) => `{${ids.join(',')}}`;
  const values = [array(pairs.map(({ webhookId }) => webhookId)), array(pairs.map(({ agentId }) => agentId))];
  const [missing] = await query<{ webhookIds: string[]; agentIds: string[] }>({
    text: `select
        (select coalesce(json_agg(id), '[]') from unnest($1::uuid[]) p (id)
          where not exists (select from webhooks w where w.id = p.id and w.deleted_at is null)) as "webhookIds",
        (select coalesce(json_agg(id), '[]') from unnest($2::uuid[]) p (id)
          where not exists (select from agents a where a.id = p.id and a.revoked_at is null)) as "agentIds"`,
    values,
  });
  if (missing!.webhookIds.length + missing!.agentIds.length === 0)
    await query({
      text: `insert into subscriptions (webhook_id, agent_id) select * from unnest($1::uuid[], $2::uuid[]) on conflict do nothing`,
      values,
    });
  return missing!;
}
