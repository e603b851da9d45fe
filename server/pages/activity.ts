/** Recent activity of webhooks, agents and events by id, for up to one page of their lists. */
import type { Call } from './call.ts';
import { itemsOf } from './page.ts';

export async function webhookActivity(call: Call, ids: readonly string[]) {
  if (ids.length === 0) return {};
  const active = itemsOf(await call('listWebhookActivity', { query: { webhook_ids: ids.join(',') } }));
  return Object.fromEntries(active.items.map((one) => [one.webhook_id, one]));
}

/** Stored events and bytes of webhooks by id. */
export async function webhookUsage(call: Call, ids: readonly string[]) {
  if (ids.length === 0) return {};
  const used = itemsOf(await call('listWebhookUsage', { query: { webhook_ids: ids.join(',') } }));
  return Object.fromEntries(used.items.map((one) => [one.webhook_id, one]));
}

/** Requests to webhooks in the last 24 hours by id, with the quarters of an hour. */
export async function webhookHistory(call: Call, ids: readonly string[]) {
  if (ids.length === 0) return {};
  const counted = itemsOf(
    await call('listWebhookHistory', { query: { webhook_ids: ids.join(','), quarters: 'true' } }),
  );
  return Object.fromEntries(counted.items.map((one) => [one.webhook_id, one]));
}

/** States of the deliveries of events. Events without deliveries are omitted; without a database, all are. */
export async function eventDeliveries(call: Call, ids: readonly string[]) {
  if (ids.length === 0) return {};
  const counted = itemsOf(await call('countEventDeliveries', { query: { event_ids: ids.join(',') } }));
  return Object.fromEntries(counted.items.map((one) => [one.event_id, one]));
}

/** What agents do, by id, with the quarters of an hour. */
export async function agentActivity(call: Call, ids: readonly string[]) {
  if (ids.length === 0) return {};
  const active = itemsOf(await call('listAgentActivity', { query: { agent_ids: ids.join(','), quarters: 'true' } }));
  return Object.fromEntries(active.items.map((one) => [one.agent_id, one]));
}
