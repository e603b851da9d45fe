/** History of agents: how their attempts ended, by quarter of an hour, and how many events their webhooks accepted. */
import type { AgentQuarter } from '../../../model/agents.ts';
import { MINUTES_KEPT_HOURS, QUARTER_SECONDS } from '../../../model/history.ts';
import type { Queries } from '../../connect/pool.ts';
import { arrayOf, columnsOf, isoColumn, isoText } from '../../sql.ts';

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
export async function addAgentHistory({ query }: Queries, rows: readonly AgentHistoryRow[]): Promise<void> {
  await query({
    name: 'add-agent-history',
    text: `
      with given as materialized (
        select agent_id, ms / 1000 as seconds, acknowledged, failed, ended
        from unnest($1::uuid[], $2::float8[], $3::bigint[], $4::bigint[], $5::bigint[]) g (agent_id, ms, acknowledged, failed, ended)
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
    values: columnsOf(rows, 'agentId', 'atMs', 'acknowledged', 'failed', 'ended'),
  });
}

/** Counts a failed attempt that was the last of its delivery, for each id. @param nowMs Unix milliseconds */
export function countFailed(database: Queries, agentIds: readonly string[], nowMs: number): Promise<void> {
  return addAgentHistory(
    database,
    agentIds.map((agentId) => ({ agentId, atMs: nowMs, acknowledged: 0, failed: 1, ended: 1 })),
  );
}

/** Reads the quarters of an hour in which attempts of the agents ended, oldest first, by agent. @param sinceMs Unix milliseconds. */
export async function readAgentQuarters(
  { query }: Queries,
  sinceMs: number,
  agentIds: readonly string[],
): Promise<Map<string, AgentQuarter[]>> {
  const rows = await query<{ agent_id: string } & AgentQuarter>({
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

/** Deletes quarters of an hour after MINUTES_KEPT_HOURS, and minutes after an hour. */
export async function deleteOldAgentHistory({ query }: Queries): Promise<void> {
  await query({ text: `delete from agent_history where at < now() - interval '${MINUTES_KEPT_HOURS} hours'` });
  await query({ text: `delete from agent_minutes where at < now() - interval '1 hour'` });
}

interface Passed {
  at: string;
  /** Accepted events of the agent's webhooks since the agent subscribed. */
  came: number;
  /** Deliveries that were acknowledged, filtered, or became dead letters. */
  ended: number;
}

const came = (step: number) => `
  select h.at, h.accepted::float8 as came, 0::float8 as ended
  from subscriptions s join history h on h.webhook_id = s.webhook_id and h.step = ${step} and h.at >= $2
  where s.agent_id = $1 and h.at + interval '${step} seconds' > s.created_at`;

/**
 * Reads the spans in which events were accepted for the agent or its deliveries ended, oldest first.
 * @param sinceMs Unix milliseconds
 */
export function readPassed(
  { query }: Queries,
  agentId: string,
  sinceMs: number,
  step: 60 | typeof QUARTER_SECONDS,
): Promise<Passed[]> {
  return query<Passed>({
    text: `
      select ${isoText('passed.at')} as at, sum(came)::float8 as came, sum(ended)::float8 as ended
      from (${came(step)}
        union all
        select at, 0, ${step === 60 ? 'ended::float8 from agent_minutes' : 'greatest(ended, acknowledged)::float8 from agent_history'} where agent_id = $1 and at >= $2
      ) passed
      group by passed.at
      order by passed.at`,
    values: [agentId, new Date(sinceMs).toISOString()],
  });
}
