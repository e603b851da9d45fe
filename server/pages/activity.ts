/** Recent activity of webhooks or agents, for their lists. */
import { type Call, itemsOf } from './page.ts';

const asked = {
  listWebhookActivity: ['webhook_ids', 'webhook_id'],
  listAgentActivity: ['agent_ids', 'agent_id'],
} as const;

// biome-ignore lint/suspicious/noExplicitAny: a document of the API
type Activity = any;

/** Returns activity by id, for up to one page of the list. */
export async function activityOf(
  call: Call,
  operation: keyof typeof asked,
  ids: readonly string[],
): Promise<Record<string, Activity>> {
  if (ids.length === 0) return {};
  const [parameter, member] = asked[operation];
  const active = await call(operation, { query: { [parameter]: ids.join(',') } });
  return Object.fromEntries(itemsOf(active).items.map((one: Activity) => [one[member], one]));
}
