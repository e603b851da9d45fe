/** Recent activity of webhooks or agents by id, for up to one page of their lists. */
import type { Call } from './call.ts';
import { itemsOf } from './page.ts';

export async function webhookActivity(call: Call, ids: readonly string[]) {
  if (ids.length === 0) return {};
  const active = itemsOf(await call('listWebhookActivity', { query: { webhook_ids: ids.join(',') } }));
  return Object.fromEntries(active.items.map((one) => [one.webhook_id, one]));
}

export async function agentActivity(call: Call, ids: readonly string[]) {
  if (ids.length === 0) return {};
  const active = itemsOf(await call('listAgentActivity', { query: { agent_ids: ids.join(',') } }));
  return Object.fromEntries(active.items.map((one) => [one.agent_id, one]));
}
