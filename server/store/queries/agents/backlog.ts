/** What came for an agent and what ended, from the counts of its webhooks and its own. */
import type { QUARTER_SECONDS } from '../../../model/history.ts';
import type { Database } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';

interface Passed {
  /** Start of the span. */
  at: string;
  /** Accepted events of the webhooks that it is subscribed to, since it is. */
  came: number;
  /** Deliveries that were acknowledged, filtered, or became dead letters. */
  ended: number;
}

const came = (step: number) => `
  select h.at, h.accepted::float8 as came, 0::float8 as ended
  from subscriptions s join history h on h.webhook_id = s.webhook_id and h.step = ${step} and h.at >= $2
  where s.agent_id = $1 and h.at + interval '${step} seconds' > s.created_at`;

/** Reads the spans in which something came or ended, oldest first. @param sinceMs Unix milliseconds */
export function readPassed(
  { query }: Pick<Database, 'query'>,
  agentId: string,
  sinceMs: number,
  step: 60 | typeof QUARTER_SECONDS,
): Promise<Passed[]> {
  return query<Passed>({
    name: `read-passed-${step}`,
    text: `
      select ${isoText('at')} as at, sum(came)::float8 as came, sum(ended)::float8 as ended
      from (${came(step)}
        union all
        select at, 0, ${step === 60 ? 'ended::float8 from agent_minutes' : 'greatest(ended, acknowledged)::float8 from agent_history'} where agent_id = $1 and at >= $2
      ) passed
      group by 1
      order by 1`,
    values: [agentId, new Date(sinceMs).toISOString()],
  });
}
