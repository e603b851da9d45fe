/**
 * Replay targets: the webhooks of which an agent has deliveries without a subscription, because their events were replayed to it. Claims
 * read them beside the subscriptions.
 */
import { z } from 'zod';
import type { Query } from '../../connect/pool.ts';
import { expected } from '../../connect/unavailable.ts';

/** SQL that records the targets of the rows `again` and returns them. */
export const insertTargets = `
  insert into replay_targets (agent_id, webhook_id)
  select distinct agent_id, webhook_id from again
  where not exists (select from subscriptions s where s.webhook_id = again.webhook_id and s.agent_id = again.agent_id)
  on conflict do nothing
  returning agent_id, webhook_id`;

/** SQL: the replay targets that a statement recorded, as JSON. */
export const targetsMade = `(select coalesce(json_agg(t), '[]') from targets t)`;

const targetsSchema = z.array(z.object({ agent_id: z.guid(), webhook_id: z.guid() }));
export type ReplayTarget = z.output<typeof targetsSchema>[number];

/** Records at home the targets that a statement recorded in a cell: processes read at home of which webhooks an agent has deliveries. */
export async function recordTargets(query: Query, targets: readonly ReplayTarget[]): Promise<void> {
  const checked = expected(targetsSchema, targets);
  if (checked.length === 0) return;
  await query({
    text: `insert into replay_targets (agent_id, webhook_id)
           select agent_id, webhook_id from json_to_recordset($1) t (agent_id uuid, webhook_id uuid) on conflict do nothing`,
    values: [JSON.stringify(checked)],
  });
}
