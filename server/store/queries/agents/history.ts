/** History of agents: how their attempts ended, by quarter of an hour. */
import type { AgentQuarter } from '../../../model/agents.ts';
import { MINUTES_KEPT_HOURS, quarterOf } from '../../../model/history.ts';
import type { Database } from '../../connect/pool.ts';
import { arrayOf, isoColumn } from '../../sql.ts';

/** Attempts of one agent that ended in one quarter of an hour. */
export interface AgentHistoryRow {
  agentId: string;
  /** Start of the quarter of an hour, Unix milliseconds. */
  atMs: number;
  acknowledged: number;
  failed: number;
}

/** Adds counts. Rows are locked in the order of the primary key, so concurrent processes cannot deadlock. */
export async function addAgentHistory(
  { query }: Pick<Database, 'query'>,
  rows: readonly AgentHistoryRow[],
): Promise<void> {
  await query({
    name: 'add-agent-history',
    text: `
      insert into agent_history (agent_id, at, acknowledged, failed)
      select g.agent_id, to_timestamp(g.seconds), sum(g.acknowledged), sum(g.failed)
      from unnest($1::uuid[], $2::float8[], $3::bigint[], $4::bigint[]) g (agent_id, seconds, acknowledged, failed)
      group by 1, 2
      order by 1, 2
      on conflict (agent_id, at) do update
      set acknowledged = agent_history.acknowledged + excluded.acknowledged, failed = agent_history.failed + excluded.failed`,
    values: [
      arrayOf(rows.map(({ agentId }) => agentId)),
      arrayOf(rows.map(({ atMs }) => atMs / 1_000)),
      arrayOf(rows.map(({ acknowledged }) => acknowledged)),
      arrayOf(rows.map(({ failed }) => failed)),
    ],
  });
}

/** Adds a failed attempt for each id. @param nowMs Unix milliseconds. */
export function countFailed(
  database: Pick<Database, 'query'>,
  agentIds: readonly string[],
  nowMs: number,
): Promise<void> {
  const atMs = quarterOf(nowMs);
  return addAgentHistory(
    database,
    agentIds.map((agentId) => ({ agentId, atMs, acknowledged: 0, failed: 1 })),
  );
}

/** Reads the quarters of an hour in which attempts of the agents ended, oldest first, by agent. @param sinceMs Unix milliseconds. */
export async function readAgentQuarters(
  { query }: Pick<Database, 'query'>,
  sinceMs: number,
  agentIds: readonly string[],
): Promise<Map<string, AgentQuarter[]>> {
  const rows = await query<{ agent_id: string } & AgentQuarter>({
    name: 'read-agent-quarters',
    text: `
      select h.agent_id, ${isoColumn('h.at')}, h.acknowledged::float8 as acknowledged, h.failed::float8 as failed
      from agent_history h
      where h.agent_id = any($2::uuid[]) and h.at >= $1
      order by h.at`,
    values: [new Date(sinceMs).toISOString(), arrayOf(agentIds)],
  });
  const quarters = new Map(agentIds.map((id) => [id, [] as AgentQuarter[]]));
  for (const { agent_id, ...quarter } of rows) quarters.get(agent_id)?.push(quarter);
  return quarters;
}

/** Deletes what is older than it is kept. */
export async function deleteOldAgentHistory({ query }: Pick<Database, 'query'>): Promise<void> {
  await query({ text: `delete from agent_history where at < now() - interval '${MINUTES_KEPT_HOURS} hours'` });
}
