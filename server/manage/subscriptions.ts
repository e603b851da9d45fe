/** Which agents get the events of which webhooks. */
import type { Database } from '../db/pool.ts';
import { subscribe } from '../db/queries/manage-agents.ts';
import { InputError } from './input.ts';

/** Subscribes; what is so already stays so. Throws InputError that names a webhook or an agent that does not exist. */
export async function subscribeAll(
  query: Database['query'],
  pairs: readonly { webhookId: string; agentId: string }[],
): Promise<void> {
  const { webhookIds, agentIds } = await subscribe(query, pairs);
  if (webhookIds.length > 0) throw new InputError(`no webhook has the id ${webhookIds[0]}; see: weir webhook list`);
  if (agentIds.length > 0) throw new InputError(`no agent in force has the id ${agentIds[0]}; see: weir agent list`);
}
