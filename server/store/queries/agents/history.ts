/** History of agents: how their attempts ended, by quarter of an hour. */
import type { AgentQuarter } from '../../../model/agents.ts';
import { MINUTES_KEPT_HOURS, QUARTER_SECONDS } from '../../../model/history.ts';
import type { Database } from '../../connect/pool.ts';
import { arrayOf, isoColumn } from '../../sql.ts';

/** Attempts and deliveries of one agent that ended in one minute. */
export interface AgentHistoryRow {
  agentId: string;
  /** Unix milliseconds. */
  atMs: number;
  acknowledged: number;
  failed: number;
  /** Deliveries that were acknowledged, filtered, or became dead letters. */
  ended: number;
}

/** Adds counts. Rows are locked in the order of the primary key, so concurrent processes cannot deadlock. */
export async function addAgentHistory(
  { query }: Pick<Database, 'query'>,
  rows: readonly AgentHistoryRow[],
): Promise<void> {
  await query({
    name: 'add-agent-history',
    text: `
      with given as materialized (
        select * from unnest($1::uuid[], $2::float8[], $3::bigint[], $4::bigint[], $5::bigint[]) g (agent_id, seconds, acknowledged, failed, ended)
      ), minutes as (
        insert into agent_minutes (agent_id, at, ended)
        select agent_id, to_timestamp(floor(seconds / 60) * 60), sum(ended) from given where ended > 0 group by 1, 2 order by 1, 2
        on conflict (agent_id, at) do update set ended = agent_minutes.ended + excluded.ended
      )
      insert into agent_history (agent_id, at, acknowledged, failed, ended)
      select agent_id, to_timestamp(floor(seconds / ${QUARTER_SECONDS}) * ${QUARTER_SECONDS}), sum(acknowledged), sum(failed), sum(ended)
      from given
      group by 1, 2
      order by 1, 2
      on conflict (agent_id, at) do update
      set acknowledged = agent_history.acknowledged + excluded.acknowledged, failed = agent_history.failed + excluded.failed,
        ended = agent_history.ended + excluded.ended`,
    values: [
      arrayOf(rows.map(({ agentId }) => agentId)),
      arrayOf(rows.map(({ atMs }) => atMs / 1_000)),
      arrayOf(rows.map(({ acknowledged }) => acknowledged)),
      arrayOf(rows.map(({ failed }) => failed)),
      arrayOf(rows.map(({ ended }) => ended)),
    ],
  });
}

/** Adds a failed attempt, the last of its delivery, for each id. @param nowMs Unix milliseconds. */
export function countFailed(
  database: Pick<Database, 'query'>,
  agentIds: readonly string[],
  nowMs: number,
): Promise<void> {
  return addAgentHistory(
    database,
    agentIds.map((agentId) => ({ agentId, atMs: nowMs, acknowledged: 0, failed: 1, ended: 1 })),
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
  await query({ text: `delete from agent_minutes where at < now() - interval '1 hour'` });
}
