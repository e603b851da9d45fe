/** /deliveries: the list, one delivery, and its replay. */

import type { Call } from './call.ts';
import { filtersOf } from './filters.ts';
import { choicesOf, listBy, namesOf } from './names.ts';
import { asProblem, listOf, type Page, redirect, view } from './page.ts';

const filterNames = ['state', 'agent_id', 'webhook_id', 'event_id', 'cursor'] as const;
type Filters = ReturnType<typeof filtersOf<(typeof filterNames)[number]>>;

const deliveryList: Page = async ({ call, query }) => {
  const { filters, listed } = await listBy(call, 'listDeliveries', filtersOf(query, filterNames));
  if (listed.kind === 'problem') return listed;
  const list = listOf(listed);
  const [agents, webhooks, replayable] = await Promise.all([
    choicesOf(call, 'listAgents', [...list.page.items.map((one) => one.agent_id), filters.agent_id]),
    choicesOf(call, 'listWebhooks', [...list.page.items.map((one) => one.webhook_id), filters.webhook_id]),
    listed.kind === 'done' ? replayableIn(call, filters) : 0,
  ]);
  return view('deliveries/list', 'Deliveries', { filters, ...list, agents, webhooks, replayable });
};

/** Number of dead letters that a replay of this list would include; 0 unless the list is that of an active agent. */
async function replayableIn(call: Call, { state, agent_id, webhook_id, event_id }: Filters): Promise<number> {
  if (state !== 'dead' || agent_id === undefined || event_id !== undefined) return 0;
  const [agent, counted] = await Promise.all([
    call('showAgent', { id: agent_id }),
    call('countDeliveries', { query: { agent_id, webhook_id } }),
  ]);
  return agent.kind === 'done' && !agent.body.revoked && counted.kind === 'done' ? counted.body.dead : 0;
}

const showDelivery: Page = async ({ call, id }) => {
  const delivery = await call('showDelivery', { id });
  if (delivery.kind !== 'done') return asProblem(delivery);
  const { agent_id, webhook_id } = delivery.body;
  const [agents, webhooks] = await Promise.all([
    namesOf(call, 'listAgents', [agent_id]),
    namesOf(call, 'listWebhooks', [webhook_id]),
  ]);
  return view('deliveries/show', `Delivery ${id.slice(-8)}`, { delivery: delivery.body, agents, webhooks });
};

const replayDelivery: Page = async ({ call, id }) => {
  const replayed = await call('replayDelivery', { id });
  return replayed.kind === 'done' ? redirect(`/deliveries/${id}`, 'replayed') : asProblem(replayed);
};

export const deliveryPages = { deliveryList, showDelivery, replayDelivery };
