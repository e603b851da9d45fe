/** Recent activity of webhooks, agents and events by id, for up to one page of their lists. What cannot be read is omitted. */
import type { Problem } from '../base/http/problem.ts';
import type { Call, Invalid } from './page.ts';

type Ids = readonly string[];

/** Last event and rejection. */
export const webhookActivity = async (call: Call, ids: Ids) =>
  byId(ids.length > 0 && (await call('listWebhookActivity', { query: { webhook_ids: ids.join(',') } })), 'webhook_id');

/** Stored events and bytes. */
export const webhookUsage = async (call: Call, ids: Ids) =>
  byId(ids.length > 0 && (await call('listWebhookUsage', { query: { webhook_ids: ids.join(',') } })), 'webhook_id');

/** Requests in the last 24 hours, with the quarters of an hour. */
export const webhookHistory = async (call: Call, ids: Ids) => {
  const query = { webhook_ids: ids.join(','), quarters: 'true' };
  return byId(ids.length > 0 && (await call('listWebhookHistory', { query })), 'webhook_id');
};

/** States of the deliveries of events. Events without deliveries are omitted. */
export const eventDeliveries = async (call: Call, ids: Ids) =>
  byId(ids.length > 0 && (await call('countEventDeliveries', { query: { event_ids: ids.join(',') } })), 'event_id');

/** What agents do, with the quarters of an hour. */
export const agentActivity = async (call: Call, ids: Ids) => {
  const query = { agent_ids: ids.join(','), quarters: 'true' };
  return byId(ids.length > 0 && (await call('listAgentActivity', { query })), 'agent_id');
};

/** @param called false: no ids were given, so nothing was called */
function byId<Item>(
  called: false | { kind: 'done'; body: { items: readonly Item[] } } | Invalid | Problem,
  key: keyof NoInfer<Item>,
): Record<string, Item> {
  const items = called !== false && called.kind === 'done' ? called.body.items : [];
  return Object.fromEntries(items.map((item) => [item[key], item]));
}
