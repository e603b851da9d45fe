import type { Query } from '../pool.ts';

/**
 * Limit on the blocks that one sample reads: 32 MiB in blocks of 8 KiB. Planner statistics are no alternative: they are missing after a
 * bulk load, and they treat state, agent and webhook as independent. An agent that is the only one behind would be reported with a
 * fraction of its backlog.
 */
export const SAMPLED_BLOCKS_MAX = 4_000;

/** Estimated deliveries of one agent, webhook and state. */
export interface SampledDeliveries {
  agentId: string;
  webhookId: string;
  state: 'pending' | 'leased' | 'dead';
  deliveries: number;
}

/**
 * Estimates unfinished deliveries from about SAMPLED_BLOCKS_MAX blocks of `deliveries`; counts a smaller table completely. Reads the
 * same blocks each time, so that the estimate follows the table and does not vary by chance.
 * @param blocksMax for tests; otherwise SAMPLED_BLOCKS_MAX.
 */
export async function sampleDeliveries(query: Query, blocksMax = SAMPLED_BLOCKS_MAX): Promise<SampledDeliveries[]> {
  const [size] = await query<{ blocks: number }>({
    text: `select (coalesce(sum(pg_relation_size(inhrelid)), 0) / current_setting('block_size')::int)::float8 as blocks
           from pg_inherits where inhparent = 'deliveries'::regclass`,
  });
  const fraction = Math.min(1, blocksMax / Math.max(1, size!.blocks));
  return query<SampledDeliveries>({
    text: `
      select agent_id as "agentId", webhook_id as "webhookId", state, round(count(*) / $1::float8)::float8 as deliveries
      from deliveries tablesample system (100 * $1::float8) repeatable (1)
      where state in ('pending', 'leased', 'dead')
      group by agent_id, webhook_id, state`,
    values: [fraction],
  });
}
