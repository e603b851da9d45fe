import type { Database } from '../pool.ts';

/**
 * Blocks that one sample reads, 32 MiB of 8 KiB each. A sample of blocks needs no statistics of the planner, which are missing after a
 * load, and which take state, agent and webhook for independent of each other: an agent that alone has fallen behind would be told
 * with a fraction of what waits for it.
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
 * What is not done, estimated from at most about SAMPLED_BLOCKS_MAX blocks of `deliveries`; a smaller table is counted whole. The same
 * blocks are read each time, so that the estimate moves with the table and not with chance.
 * @param blocksMax for tests; otherwise SAMPLED_BLOCKS_MAX.
 */
export async function sampleDeliveries(
  query: Database['query'],
  blocksMax = SAMPLED_BLOCKS_MAX,
): Promise<SampledDeliveries[]> {
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
